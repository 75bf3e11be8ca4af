"""What the output of a failed step means, and what to do about it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

# (what pip's or venv's output says, what it means and what to do), most telling first.
_ADVICE = (
    (r"No space left on device|Errno 28|Disk quota exceeded",
     "The disk is full ({free:.1f} GB free here). torch takes about 2 GB as a CPU build and 8 GB with CUDA, and pip\n"
     "needs as much again while it installs. Free some space (pip cache purge), or move this folder to a larger disk."),
    (r"Read-only file system|Permission denied|Errno 13|Errno 30",
     "Something could not be written. Check who owns this folder and .venv (ls -ld . .venv); a set-up once run\n"
     "with sudo leaves files that only root may change:   sudo chown -R \"$USER\" ."),
    (r"CERTIFICATE_VERIFY_FAILED|SSLError",
     "The connection to the package registry is not trusted. Behind a company proxy, give pip its certificate:\n"
     "PIP_CERT=/path/to/certificate.pem ./run setup"),
    (r"Could not resolve|name resolution|NewConnectionError|Max retries exceeded|Network is unreachable|"
     r"Connection refused|ConnectTimeout|Read timed out|ProxyError|Connection broken|IncompleteRead|ConnectionReset",
     "The package registry could not be reached. Check the network (behind a proxy: HTTPS_PROXY), then run the same\n"
     "command again: finished downloads are kept."),
    (r"No matching distribution found for triton",
     "There is no Triton for this machine and Python. It exists for Linux (x86_64, aarch64) and Python 3.10 to 3.14;\n"
     "on Windows use WSL 2, elsewhere Colab or a cloud GPU."),
    (r"No matching distribution found|requires a different Python",
     "A package has no release for this Python ({python}). The course is tested with 3.10 to 3.13; name another one:\n"
     "EFFLAB_PYTHON=/path/to/python3.12 ./run setup"),
    (r"command '?\S*(gcc|cc|clang|g\+\+)\S*'? failed|Python\.h: No such file|Failed to build|find .* compiler",
     "A package had to be compiled, and the compiler failed or is missing. On Debian or Ubuntu:\n"
     "sudo apt install build-essential python3-dev"),
    (r"ensurepip is not available|No module named '?ensurepip",
     "Python's venv module is not complete. On Debian or Ubuntu:   sudo apt install python3-venv"),
    (r"No module named '?pip",
     "The Python in .venv has no pip. Move .venv away; the next set-up makes one that has it."),
    (r"ResolutionImpossible|conflicting dependencies",
     "Two packages ask for versions that exclude each other. If you set EFFLAB_TORCH, try another torch (2.7 or\n"
     "newer); otherwise versions.txt is at fault: please report the log."),
    (r"MemoryError|exit status -9",
     "The system stopped the step, most likely for lack of memory. Close other programs, or add swap, and try again."),
)
_NO_ADVICE = "Run the same command again; if it fails in the same way, report it together with the log."


def advise(output: str, checkout: Path) -> str:
    """One or two sentences for the output of a failed step (pip's, venv's)."""
    facts = {"free": shutil.disk_usage(checkout).free / 1e9, "python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for pattern, text in _ADVICE:
        if re.search(pattern, output):
            return text.format(**facts)
    return _NO_ADVICE
