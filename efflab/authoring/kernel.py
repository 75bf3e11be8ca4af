"""A Jupyter kernel that is this Python, found without being registered anywhere.

A fresh virtual environment, a container or a borrowed GPU machine may have no kernelspec called python3, or one that
starts another Python. So a folder with one kernelspec is written for the time of a run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

NAME = "python3"


def write_kernelspec(data: Path, *, import_from: Path, home: Path) -> Path:
    """Write data/kernels/python3 and return data/kernels. Put `data` first on JUPYTER_PATH to have it found.

    import_from: folder whose packages the kernel imports, installed or not.
    home: an existing folder for what IPython and efflab keep, so that a run marks no exercise as the learner's.
    """
    folder = data / "kernels" / NAME
    folder.mkdir(parents=True, exist_ok=True)
    found = os.environ.get("PYTHONPATH")
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
        "env": {"PYTHONPATH": str(import_from) + (os.pathsep + found if found else ""),
                "EFFLAB_HOME": str(home / "efflab"),
                "IPYTHONDIR": str(home / "ipython"),
                "PYDEVD_DISABLE_FILE_VALIDATION": "1"},
    }
    (folder / "kernel.json").write_text(json.dumps(spec, indent=1), encoding="utf-8")
    return folder.parent
