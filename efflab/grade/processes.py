"""Other processes seen from outside: who descends from whom, how much memory they hold, and how to end them all."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def end_with_parent() -> None:
    """This process is killed when its parent ends (Linux)."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Processes that descend from this one stay its descendants when their parents end (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_traceable(on: bool) -> None:
    """Whether other processes of the same user may look into this one's memory (Linux)."""
    _prctl(_PR_SET_DUMPABLE, int(on))


def descendants(of: int) -> set[int]:
    """The ids of all processes below `of`, without it. Zombies count."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    left = [of]
    while left:
        for pid in children.get(left.pop(), ()):
            if pid not in found:
                found.add(pid)
                left.append(pid)
    return found


def _parents() -> Iterable[tuple[int, int]]:
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        return [(int(a), int(b)) for a, b in (line.split() for line in listed.splitlines())]
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                stat = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
                found.append((int(name), int(stat[stat.rindex(")") + 2:].split()[1])))
    return found


def held_bytes(pids: Iterable[int]) -> int:
    """Memory that these processes hold; pages shared by n processes count 1/n for each."""
    return sum(_held(pid) for pid in pids)


def _held(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) << 10
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def kill_below(root: int, keep: frozenset[int] = frozenset(), seconds: float = 5.0) -> bool:
    """Kill everything below `root` but those in `keep`; True when nothing of it runs any more."""
    until = time.monotonic() + seconds
    while True:
        left = {pid for pid in descendants(root) - keep if _runs(pid)}
        if not left:
            return True
        if time.monotonic() > until:
            return False
        for sent in (signal.SIGSTOP, signal.SIGKILL):       # stopped first, so that none forks while others are killed
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sent)
        time.sleep(0.002)


def _runs(pid: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat[stat.rindex(")") + 2] not in "ZX"
    return not Path("/proc/self").exists()
