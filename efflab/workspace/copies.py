"""The learner's copies in work/: made, offered anew and set aside, never overwritten.

A lesson or stub that changes in the repository meets a copy in one of three states:

    no copy                  it is copied
    copy without edits       the copy goes to work/backups/ and is made again
    copy with edits          the new one is laid beside it, under a dated name, once

What a copy was made from is remembered in work/.copies.json, as a digest of the text that a learner edits
(the cells' sources for a notebook, so that running or saving one is not an edit).
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from efflab import course


class WorkspaceError(Exception):
    """The learner's copies cannot be made; the message says why and what to do."""


@dataclass(frozen=True)
class Workspace:
    """checkout: the repository's folder; work: the folder of the copies."""

    checkout: Path
    work: Path

    @property
    def backups(self) -> Path:
        return self.work / "backups"

    @property
    def state(self) -> Path:
        return self.work / ".copies.json"


def here() -> Workspace:
    """The workspace of this checkout. Raises WorkspaceError when efflab was installed without one."""
    top = course.root()
    if top is None:
        raise WorkspaceError("This efflab was installed without the course's notebooks. Clone the repository "
                             f"({course.repository()}) and use ./run there.")
    return Workspace(top, top / "work")


def refresh(space: Workspace, sources: list[Path]) -> list[str]:
    """Bring the copies of these lessons or stubs up to date. Returns one line for each thing done."""
    made_from = _read_state(space)
    lines = []
    for source in sources:
        line, made_from[source.name] = _refresh_one(space, source, made_from.get(source.name))
        if line:
            lines.append(line)
            _write_state(space, made_from)
    _write_state(space, made_from)
    return lines


def reset(space: Workspace, slug: str) -> list[str]:
    """Move a chapter's copies to dated backups and make fresh ones. Returns one line for each thing done."""
    found = course.chapter(slug)
    made_from = _read_state(space)
    lines = []
    for source in (lesson_of(space, found), stub_of(space, found)):
        copies = [space.work / source.name, *sorted(space.work.glob(f"{source.stem}.new-*{source.suffix}"))]
        copies = [copy for copy in copies if copy.exists()]
        if not copies and source.suffix == ".py":
            continue  # a stub is copied only when asked for
        fresh = _temporary_copy(source, space.work)  # first: a full disk must not cost the old copy its place
        for copy in copies:
            lines.append(f"{copy.name}: yours is now {_shown(space, _set_aside(space, copy))}")
        os.replace(fresh, space.work / source.name)
        made_from[source.name] = digest(source)
        lines.append(f"{source.name}: a fresh copy is in {_shown(space, space.work / source.name)}")
    _write_state(space, made_from)
    return lines


def lessons(space: Workspace) -> list[Path]:
    """The built notebooks of the written chapters, in order."""
    found = [space.checkout / "notebooks" / f"{c.file_stem}.ipynb" for c in course.CHAPTERS]
    return [path for path in found if path.is_file()]


def lesson_of(space: Workspace, found: course.Chapter) -> Path:
    return _existing(space.checkout / "notebooks" / f"{found.file_stem}.ipynb", found)


def stub_of(space: Workspace, found: course.Chapter) -> Path:
    return _existing(space.checkout / "exercises" / f"{found.slug}.py", found)


def digest(path: Path) -> str:
    """A hash of what a learner edits: the cells' kinds and sources of a notebook, else the bytes."""
    content = path.read_bytes()
    if path.suffix == ".ipynb":
        try:
            cells = json.loads(content)["cells"]
            content = json.dumps([[cell["cell_type"], "".join(cell["source"])] for cell in cells]).encode()
        except (ValueError, KeyError, TypeError):
            pass  # not a notebook any more: any change counts
    return hashlib.sha256(content).hexdigest()


def _refresh_one(space: Workspace, source: Path, made_from: str | None) -> tuple[str | None, str]:
    """One lesson or stub. Returns (what was done, or None; the digest that the copy now stands for)."""
    copy = space.work / source.name
    current = digest(source)
    if not copy.exists():
        os.replace(_temporary_copy(source, space.work), copy)
        return f"{source.name}: copied to {_shown(space, copy)}", current
    in_copy = digest(copy)
    if current in (made_from, in_copy):
        return None, current
    if in_copy == made_from:
        fresh = _temporary_copy(source, space.work)
        backup = _set_aside(space, copy)
        os.replace(fresh, copy)
        return (f"{source.name}: has a new version; your copy had no edits and was made again "
                f"(the old one is {_shown(space, backup)})"), current
    beside = _free_name(space.work / f"{source.stem}.new-{_today()}{source.suffix}")
    os.replace(_temporary_copy(source, space.work), beside)
    return (f"{source.name}: has a new version, laid beside your copy as {_shown(space, beside)}; "
            f"your copy stays as it is"), current


def _set_aside(space: Workspace, copy: Path) -> Path:
    space.backups.mkdir(parents=True, exist_ok=True)
    backup = _free_name(space.backups / f"{copy.stem}-{_today()}{copy.suffix}")
    os.replace(copy, backup)
    return backup


def _temporary_copy(source: Path, folder: Path) -> Path:
    """A whole copy under a temporary name in `folder`, to be moved into place in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=source.suffix, dir=folder)
    try:
        with os.fdopen(handle, "wb") as target, source.open("rb") as original:
            shutil.copyfileobj(original, target)
            target.flush()
            os.fsync(target.fileno())
        os.chmod(name, 0o644)
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)


def _free_name(path: Path) -> Path:
    """`path`, or the first of path-2, path-3, … that does not exist."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def _read_state(space: Workspace) -> dict[str, str]:
    """The digests by file name; empty when there are none yet or the file is damaged (copies then count as edited)."""
    try:
        state = json.loads(space.state.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {name: value for name, value in state.items() if isinstance(value, str)} if isinstance(state, dict) else {}


def _write_state(space: Workspace, made_from: dict[str, str]) -> None:
    if made_from == _read_state(space):
        return
    space.work.mkdir(parents=True, exist_ok=True)
    temporary = space.state.with_suffix(".tmp")
    temporary.write_text(json.dumps(made_from, indent=1, sort_keys=True), encoding="utf-8")
    os.replace(temporary, space.state)


def _existing(path: Path, found: course.Chapter) -> Path:
    if not path.is_file():
        reason = "has not been built: run ./run build" if found.ready else "is planned and not written yet"
        raise WorkspaceError(f"Chapter {found.number:02d} {found.slug} {reason}.")
    return path


def _shown(space: Workspace, path: Path) -> str:
    return str(path.relative_to(space.checkout)) if path.is_relative_to(space.checkout) else str(path)


def _today() -> str:
    return datetime.date.today().isoformat()
