"""Submissions: which files belong to whom, and what each file defines. Reading one never runs it."""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from efflab import course
from efflab.grade.extract import Broken, Unit, unit_of, without_erasing_stubs

MAX_BYTES = 300_000_000             # a notebook of 100 MB of pictures is read; its outputs are not looked at
MAX_SOURCE_CHARS = 2_000_000
SUFFIXES = (".py", ".ipynb")


class Unreadable(ValueError):
    """A submission, or a path, that cannot be graded at all; the message says why and what to do."""


@dataclass(frozen=True)
class Submission:
    """name: shown in results. files: one, or one for each chapter."""

    name: str
    files: tuple[Path, ...]


@dataclass
class Code:
    """What was read of a submission: its definitions in order. notes: what was left out, for its author."""

    units: list[Unit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[Broken]:
        return [b for unit in self.units for b in unit.broken]

    def names(self) -> set[str]:
        return {name for unit in self.units for s in unit.kept for name in s.names}

    def text(self) -> str:
        """All definitions as one module's text."""
        sources = [s.source for unit in self.units for s in unit.kept]
        first = [s for s in sources if s.startswith("from __future__")]
        return "\n\n".join(dict.fromkeys(first + sources)) + "\n"

    def as_plain(self) -> list[Any]:
        """For the wire: [filename, text, [[line, statement's source], …]] of each unit."""
        return [[u.filename, u.text, [[s.line, s.source] for s in u.kept]] for u in self.units]


def find(paths: Sequence[Path]) -> list[Submission]:
    """The submissions under these paths, sorted; raises Unreadable for a path that is missing or holds none.

    In a folder, files called after a chapter (slug or NN_slug) that lie together in a subfolder are one submission,
    named after the subfolder; every other file is one of its own.
    """
    found: list[tuple[str, tuple[Path, ...]]] = []
    for path in paths:
        if path.is_dir():
            found += _in_folder(path)
        elif not path.exists():
            raise Unreadable(f"There is no file or folder {shown(str(path))}. "
                             "Check the spelling and the folder you are in.")
        elif path.suffix not in SUFFIXES:
            raise Unreadable(f"{shown(str(path))} is neither a .py file nor a notebook (.ipynb).")
        else:
            found.append((path.stem, (path,)))
    return [Submission(name, files) for name, files in _distinct(found)]


def _in_folder(top: Path) -> list[tuple[str, tuple[Path, ...]]]:
    groups: dict[tuple[str, str], list[Path]] = {}
    inside = top.resolve()
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
        for name in sorted(files):
            path = Path(folder) / name
            if name.startswith((".", "~", "__")) or path.suffix not in SUFFIXES:
                continue
            if not path.resolve().is_relative_to(inside):
                continue                                      # a link that leads out
            relative = path.relative_to(top)
            alone = folder == str(top) or _slug_of(path) is None
            label = relative.with_suffix("") if alone else relative.parent
            groups.setdefault((str(label), path.suffix if alone else ""), []).append(path)
    if not groups:
        raise Unreadable(f"The folder {shown(str(top))} holds no submissions (.py files or notebooks).")
    return [(label, tuple(files)) for (label, _), files in sorted(groups.items())]


def _distinct(found: list[tuple[str, tuple[Path, ...]]]) -> list[tuple[str, tuple[Path, ...]]]:
    """Names that occur twice take the file's suffix or folder with them, then a number."""
    count = Counter(name for name, _ in found)
    longer = [(name if count[name] == 1 else str(Path(files[0].parent.name, files[0].name)), files)
              for name, files in found]
    seen: Counter[str] = Counter()
    result = []
    for name, files in longer:
        seen[name] += 1
        result.append((shown(name) if seen[name] == 1 else f"{shown(name)} ({seen[name]})", files))
    return result


def shown(text: str) -> str:
    """Text that a submission chose, safe to print: control and direction characters are replaced."""
    clean = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
                    and c not in "\n\t" else c for c in text)
    return clean or "(no name)"


def _slug_of(path: Path) -> str | None:
    try:
        return course.chapter(path.name).slug
    except course.UnknownChapter:
        return None


def read(path: Path) -> Code:
    """What one file defines. Raises Unreadable."""
    name = shown(path.name)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise Unreadable(f"{name} has {size:,} bytes; at most {MAX_BYTES:,} are read. "
                             "Clear the notebook's outputs.")
        data = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {error.strerror}.") from error
    if not data.strip():
        raise Unreadable(f"{name} is empty.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from error
    code = Code(_cells(text, name) if path.suffix == ".ipynb" else [_file(text, name)])
    code.notes += without_erasing_stubs(code.units)
    return code


def merge(codes: Sequence[Code]) -> Code:
    """The definitions of several files, one after another."""
    merged = Code([u for c in codes for u in c.units], [n for c in codes for n in c.notes])
    merged.notes += without_erasing_stubs(merged.units)
    return merged


def _file(text: str, name: str) -> Unit:
    if len(text) > MAX_SOURCE_CHARS:
        raise Unreadable(f"{name} holds {len(text):,} characters of source; at most {MAX_SOURCE_CHARS:,} are read.")
    return unit_of(text.replace("\r\n", "\n"), name)


def _cells(text: str, name: str) -> list[Unit]:
    """One unit for each code cell that is well formed. Raises Unreadable."""
    cells = _notebook(text, name).get("cells")
    if not isinstance(cells, list):
        raise Unreadable(f"{name} is JSON but holds no list of cells, so it is not a notebook.")
    units: list[Unit] = []
    total, functions = 0, frozenset[str]()
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise Unreadable(f"{name}: the source of cell {number} is not text.")
        total += len(source)
        if total > MAX_SOURCE_CHARS:
            raise Unreadable(f"{name} holds more than {MAX_SOURCE_CHARS:,} characters of source.")
        units.append(unit_of(source.replace("\r\n", "\n"), f"{name}, cell {number}", cell=True, before=functions))
        functions |= {n for s in units[-1].kept if s.function for n in s.names}
    return units


def _notebook(text: str, name: str) -> dict[str, Any]:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise Unreadable(f"{name} is not a notebook: it is not JSON{line}. "
                         "Was it cut off, or merged by git?") from error
    if not isinstance(notebook, dict):
        raise Unreadable(f"{name} is JSON but not a notebook.")
    if notebook.get("nbformat") != 4:
        found = shown(json.dumps(notebook.get("nbformat")))[:20]
        raise Unreadable(f"{name} has notebook format {found}; format 4 is read. Open it in JupyterLab and save it.")
    return notebook
