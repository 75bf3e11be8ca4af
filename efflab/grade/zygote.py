"""A warm process behind the walls: it imports torch and triton once and forks one child for each exercise.

    python -m efflab.grade.zygote CONTROL_FD SETTINGS

On the control socket come b"F" with a descriptor (fork a child that serves on it) and b"C" (clean up: reap, empty the
scratch folders, answer with the last child's status). A child starts with what the imports left and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import sys
import traceback
import warnings
from typing import Any


def main(control_fd: int, settings: dict[str, Any]) -> None:
    from efflab.grade import processes

    processes.set_traceable(False)
    processes.adopt_orphans()
    _import_once()
    control = socket.socket(fileno=control_fd)
    control.sendall(b"ready\n")
    child, status = 0, None
    while True:
        word, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not word:
            return
        if word == b"F":
            child = _fork(control, descriptors[0], settings)
            status = None
        else:
            status = _reap(child, status)
            for folder in settings["scratch"]:
                _empty(folder)
            control.sendall(json.dumps(status).encode() + b"\n")


def _import_once() -> None:
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):
        torch.set_num_interop_threads(1)
        import triton
        import triton.language  # noqa: F401
    from efflab.checking.observe import observe
    from efflab.grade import worker  # noqa: F401

    x = torch.ones(2, 2)
    observe(lambda x: torch.empty_like(x).copy_(x) @ x, {"x": x})     # what torch imports on first use, seconds of it


def _fork(control: socket.socket, channel_fd: int, settings: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        os.close(channel_fd)
        return pid
    status = 70
    try:
        control.close()
        _become_child(settings)
        from efflab.grade import worker

        worker.serve(socket.socket(fileno=channel_fd), settings["device"])
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _become_child(settings: dict[str, Any]) -> None:
    """Own session, no terminal, limits in force; standard output goes nowhere unless its owner wants to see it."""
    from efflab.grade import limited, processes

    os.setsid()
    processes.end_with_parent()
    processes.set_traceable(True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    if settings["show"]:
        os.dup2(2, 1)
    else:
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
    os.close(nothing)
    sys.argv = ["submission"]
    os.chdir(settings["scratch"][0])
    limited.apply(settings["limits"])


def _reap(child: int, status: int | None) -> int | None:
    """Collect every ended child. Returns the exercise's exit code, minus the signal that ended it."""
    while True:
        try:
            pid, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = os.waitstatus_to_exitcode(ended)


def _empty(folder: str) -> None:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    os.unlink(entry.path)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
