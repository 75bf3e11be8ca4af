"""The walls round a submission: bubblewrap where it works, resource limits everywhere, and a sentence that says which.

Inside bubblewrap there is no network, no other process, an empty home and /tmp, and of the file system only, and
read-only, what Python needs: the system's libraries, the Python environment, and efflab without the chapters' checks,
mistakes and solutions.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import efflab
from efflab import course

PACKAGE = Path(efflab.__file__).resolve().parent
VISIBLE_IN_CHAPTER = ("__init__.py", "drive.py", "figures.py")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
SCRATCH = "/tmp"
FILE_BYTES = 256 << 20
SCRATCH_BYTES = 1 << 30
PROCESSES = 256
UNTOUCHED = 48 << 30        # address space beyond the memory limit: strides past 2**31 map it and touch little of it


@dataclass(frozen=True, kw_only=True)
class Walls:
    """How a submission's processes are held. bwrap: path of the program, None where it cannot be used, and why not.
    memory: bytes for one exercise. seconds: wall clock for one exercise. gpu: the GPU is let in."""

    bwrap: str | None
    why_not: str = ""
    memory: int = 8 << 30
    seconds: float = 120.0
    gpu: bool = False
    size_option: bool = True

    @property
    def sentence(self) -> str:
        """What is in force and what is not, for the person who grades."""
        limits = f"{self.seconds:g} s and {self.memory / 2**30:g} GB for an exercise"
        if self.bwrap:
            return (f"Isolation: bubblewrap (no network, no other processes, read-only system, answers out of sight) "
                    f"and limits ({limits}).")
        return (f"Isolation: limits only ({limits}; bubblewrap {self.why_not}). Not enforced: a submission could use "
                "the network, and read or change the files of the user who grades, the answers among them.")


def walls(*, bwrap: bool = True, **settings: Any) -> Walls:
    """The best walls that this machine gives. bwrap=False: limits only."""
    if not bwrap:
        return Walls(bwrap=None, why_not="was not asked for", **settings)
    program = shutil.which("bwrap")
    if program is None:
        return Walls(bwrap=None, why_not="is not installed", **settings)
    error = ""
    for size_option in (True, False):
        tried = Walls(bwrap=program, size_option=size_option, **settings)
        error = _refusal(tried)
        if not error:
            return tried
    return Walls(bwrap=None, why_not=f"is refused here: {error}", **settings)


@functools.lru_cache(maxsize=8)
def _refusal(tried: Walls) -> str:
    """Run nothing much inside, once: empty when it works, else the first line of what bubblewrap says."""
    probe = "import socket, os; assert os.listdir('/proc/self/fd'); os.mkdir('/tmp/probe')"
    try:
        done = subprocess.run([*_bwrap(tried, (), {}), "--", sys.executable, "-I", "-S", "-c", probe],
                              capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error).splitlines()[0]
    if done.returncode == 0:
        return ""
    return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1][:200]


def command(w: Walls, inner: Sequence[str], *, hidden: Sequence[str], scratch: Path, environment: dict[str, str],
            writable: Sequence[Path] = (), limits: dict[str, Any] | None = None) -> list[str]:
    """The command that runs `inner` behind the walls.

    hidden: chapters whose solutions must not be seen. scratch: its folder where bubblewrap gives none of its own.
    """
    home = SCRATCH if w.bwrap else str(scratch)
    environment = environment | {"HOME": home, "TMPDIR": home, "TRITON_CACHE_DIR": f"{home}/triton"}
    told = json.dumps((limits or {}) | {"environment": environment})
    limited = [sys.executable, "-I", "-S", str(PACKAGE / "grade" / "limited.py"), told, *inner]
    if not w.bwrap:
        return limited
    return [*_bwrap(w, hidden, environment, writable), "--", *limited]


def clean_environment(*, gpu: bool) -> dict[str, str]:
    """Only what Python, torch and triton need; nothing of the user's."""
    passed = ("PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "TRITON_LIBCUDA_PATH")
    kept = {name: os.environ[name] for name in passed if name in os.environ}
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")}
    return kept | threads | ({} if gpu else {"TRITON_INTERPRET": "1"}) | {
        "LANG": "C.UTF-8", "USER": "learner", "LOGNAME": "learner", "PYTHONPATH": str(PACKAGE.parent),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONSAFEPATH": "1", "MPLBACKEND": "Agg"}


def hidden_solutions(slug: str) -> list[str]:
    """The chapters whose solutions a submission of this one must not see: itself and all later ones."""
    return [c.slug for c in course.CHAPTERS if c.number >= course.chapter(slug).number]


def _bwrap(w: Walls, hidden: Sequence[str], environment: dict[str, str], writable: Sequence[Path] = ()) -> list[str]:
    assert w.bwrap is not None
    size = ["--size", str(SCRATCH_BYTES)] if w.size_option else []
    words = [w.bwrap, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
             "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv", "--hostname", "grader"]
    for name in _SYSTEM:
        if os.path.islink(name):
            words += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            words += ["--ro-bind", name, name]
    for name in _ETC:
        words += ["--ro-bind-try", name, name]
    words += ["--proc", "/proc", "--dev", "/dev", *size, "--tmpfs", SCRATCH]
    for path in _python_paths():
        words += ["--ro-bind", path, path]
    words += list(_efflab(hidden))
    if w.gpu:
        words += list(_gpu())
    for folder in writable:
        words += ["--bind", str(folder), str(folder)]
    return [*words, "--chdir", SCRATCH]


def _python_paths() -> list[str]:
    """What must be readable for this Python to start: its prefixes, its path, and the links that lead to it."""
    wanted = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values(), *site.getsitepackages(),
              site.getusersitepackages(), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    link = sys.executable
    for _ in range(16):
        wanted.append(link)
        if not os.path.islink(link):
            break
        link = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link)))
    own = {str(PACKAGE.parent), os.getcwd()}
    kept: list[str] = []
    for path in sorted({os.path.abspath(p) for p in wanted if p and os.path.exists(p)}, key=lambda p: (len(p), p)):
        if path not in own and path != "/" and not _inside(path, [*_SYSTEM, *kept]):
            kept.append(path)
    return kept


def _inside(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for folder in folders)


def _efflab(hidden: Sequence[str]) -> Iterator[str]:
    """efflab without answers, the earlier chapters' solutions, and nothing else of a checkout."""
    package, chapters = str(PACKAGE), PACKAGE / "chapters"
    top = PACKAGE.parent
    yield from ("--ro-bind", package, package, "--tmpfs", str(chapters))
    for path in sorted([chapters / "__init__.py", *chapters.glob("*/*.py")]):
        if path.name in VISIBLE_IN_CHAPTER:
            yield from ("--ro-bind", str(path), str(path))
    covered = _inside(str(top), [*_SYSTEM, *_python_paths()])
    for name in ("solutions", "tests", "exercises", "notebooks", "results", "work", ".git") if covered else ():
        if (top / name).is_dir():
            yield from ("--tmpfs", str(top / name))
    spec = importlib.util.find_spec("solutions")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if str(Path(folder).parent) != str(top):
            yield from ("--tmpfs", folder)
        for path in sorted(Path(folder).glob("*.py")):
            if path.stem not in hidden and (path.stem == "__init__" or hidden):
                yield from ("--ro-bind", str(path), str(path))


def _gpu() -> Iterator[str]:
    for device in sorted(glob.glob("/dev/nvidia*")):
        yield from ("--dev-bind", device, device)
    yield from ("--ro-bind-try", "/sys", "/sys", "--ro-bind-try", "/etc/OpenCL", "/etc/OpenCL")
