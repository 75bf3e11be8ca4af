"""Run a command under limits and with a clean environment. A script of its own: it imports nothing of efflab.

    python limited.py '{"environment": {…}, "address_space": bytes or null, …}' command …
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any


def apply(limits: dict[str, Any]) -> None:
    """Set this process's resource limits. address_space is on top of what the process maps already.

    cpu_seconds, address_space, file_bytes, processes (all of the user's, see running): None leaves one as it is.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, 1024)
    if limits.get("cpu_seconds"):
        _lower(resource.RLIMIT_CPU, int(limits["cpu_seconds"]))
    if limits.get("file_bytes"):
        _lower(resource.RLIMIT_FSIZE, int(limits["file_bytes"]))
    if limits.get("processes"):
        _lower(resource.RLIMIT_NPROC, int(limits["processes"]))
    if limits.get("address_space"):
        _lower(resource.RLIMIT_AS, _mapped() + int(limits["address_space"]))


def _lower(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(which, (value, value))


def _mapped() -> int:
    with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def running() -> int:
    """Threads that this user runs now on this machine: the limit counts them all."""
    count, user = 0, os.getuid()
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    apply(told)
    os.execve(sys.argv[2], sys.argv[2:], told["environment"])
