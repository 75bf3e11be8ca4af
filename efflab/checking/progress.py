"""Progress: the outcome of every check, in one small local file that survives restarts.

The file is JSON, written to a temporary name and moved into place, under a lock. A damaged one is set aside under
a dated name and never overwritten. It lies in $EFFLAB_HOME, or in the user's data directory.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from efflab.checking.report import Report

VERSION = 1


class ProgressError(RuntimeError):
    """Progress could not be read or written; the message says where and what to do."""


def home() -> Path:
    """Where efflab keeps its small files: $EFFLAB_HOME, or efflab/ in the user's data directory."""
    chosen = os.environ.get("EFFLAB_HOME")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "efflab"


def path() -> Path:
    return home() / "progress.json"


def load() -> dict[str, dict[str, Any]]:
    """Exercise id -> {outcome, points, max_points, best, tries, mistake, when}. Empty when there is none yet.

    A damaged file is moved to progress.damaged-DATE.json beside it, and progress begins anew.
    """
    file = path()
    try:
        return _parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, UnicodeDecodeError):
        aside = _set_aside(file)
        print(f"efflab: {file} is damaged. It was moved to {aside.name}; progress begins anew.")
        return {}
    except OSError as error:
        raise ProgressError(f"progress could not be read from {file}: {error.strerror}. "
                            "Set EFFLAB_HOME to a folder that you may read and write.") from error


def _parse(text: str) -> dict[str, dict[str, Any]]:
    data = json.loads(text)
    entries = data["exercises"] if isinstance(data, dict) and data.get("version") == VERSION else None
    if not isinstance(entries, dict) or not all(isinstance(e, dict) and "outcome" in e for e in entries.values()):
        raise ValueError("not a progress file")
    return entries


def _set_aside(file: Path) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%d-%H%M%S")
    for n in range(1000):
        aside = file.with_name(f"progress.damaged-{stamp}{f'-{n}' if n else ''}.json")
        if not aside.exists():
            file.rename(aside)
            return aside
    raise ProgressError(f"too many damaged progress files in {file.parent}; look through them and remove some.")


def record(report: Report) -> None:
    """Keep one report's outcome. A function that once passed stays known as passed ("best")."""
    with _locked():
        entries = load()
        entries[report.exercise_id] = _merged(entries.get(report.exercise_id), report)
        _write(entries)


def _merged(old: dict[str, Any] | None, report: Report) -> dict[str, Any]:
    best = max(float(report.points), float((old or {}).get("best", 0)))
    return {"outcome": report.outcome, "points": report.points, "max_points": report.max_points, "best": best,
            "tries": int((old or {}).get("tries", 0)) + (report.outcome != "not_attempted"),
            "mistake": report.mistake, "when": datetime.now(timezone.utc).isoformat(timespec="seconds")}


def export_to(file: Path) -> int:
    """Write all progress to one file; returns the number of exercises in it. Refuses to overwrite."""
    entries = load()
    with file.open("x", encoding="utf-8") as out:
        json.dump({"version": VERSION, "exercises": entries}, out, indent=1, sort_keys=True)
    return len(entries)


def import_from(file: Path) -> int:
    """Take in an exported file; for each exercise the better outcome stays. Returns how many changed."""
    try:
        theirs = _parse(file.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise ProgressError(f"{file} is not a progress file made by `efflab progress export`: {error}") from error
    with _locked():
        entries = load()
        better = {name: entry for name, entry in theirs.items()
                  if float(entry.get("best", 0)) > float(entries.get(name, {}).get("best", -1))}
        _write(entries | better)
    return len(better)


def _write(entries: dict[str, dict[str, Any]]) -> None:
    file, temporary = path(), None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".progress-")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump({"version": VERSION, "exercises": entries}, out, indent=1, sort_keys=True)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, file)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise ProgressError(f"progress could not be written to {file}: {error.strerror}. The check itself is not "
                            "affected. Free some space, or set EFFLAB_HOME to another folder.") from error


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """One writer at a time, also among several kernels; where locks are missing, go on without."""
    try:
        import fcntl

        home().mkdir(parents=True, exist_ok=True)
        handle = os.open(home() / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
    except ImportError:
        yield
        return
    except OSError as error:
        raise ProgressError(f"progress could not be written to {home()}: {error.strerror}. The check itself is not "
                            "affected. Set EFFLAB_HOME to a folder that you may write.") from error
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
