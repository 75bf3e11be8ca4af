"""Build what is built, and say what no longer agrees with its sources."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from efflab.authoring.layout import ChapterFacts, Course, write_whole
from efflab.authoring.notebook import notebook_text
from efflab.authoring.stubs import stubs_text

DIFF_LINES = 12


@dataclass(frozen=True)
class Difference:
    """A built file that is "missing", "different" from its sources, or "stale": without a source."""

    path: Path
    kind: str
    diff: str = ""


def built_files(course: Course, chapter: ChapterFacts) -> dict[Path, str]:
    """Path and text of everything that is built for one chapter. Raises AuthoringError."""
    return {course.notebook(chapter): notebook_text(course, chapter),
            course.stubs(chapter): stubs_text(course, chapter)}


def build(course: Course, chapters: Iterable[ChapterFacts]) -> list[Path]:
    """Write the chapters' built files and return those that changed. Nothing is written when one cannot be built."""
    files = {path: text for chapter in chapters for path, text in built_files(course, chapter).items()}
    changed = [path for path, text in files.items() if _read(path) != text]
    for path in changed:
        write_whole(path, files[path])
    return changed


def differences(course: Course, chapters: Iterable[ChapterFacts]) -> list[Difference]:
    """What a build of these chapters would change."""
    found = []
    for chapter in chapters:
        for path, text in built_files(course, chapter).items():
            there = _read(path)
            if there is None:
                found.append(Difference(path, "missing"))
            elif there.replace("\r\n", "\n") != text:       # git on Windows may have changed line ends
                found.append(Difference(path, "different", _short_diff(there, text)))
    return found


def stale_files(course: Course) -> list[Difference]:
    """Built files whose chapter has no sources any more, or never was in the course."""
    expected = {path for c in course.chapters for source, paths in (
        (course.lesson(c), (course.notebook(c), course.executed(c))), (course.solution(c), (course.stubs(c),)))
        if source.is_file() for path in paths}
    there = [*(course.root / "notebooks").glob("*.ipynb"), *(course.root / "exercises").glob("*.py"),
             *(course.root / "solutions" / "executed").glob("*.ipynb")]
    return [Difference(path, "stale") for path in sorted(there) if path not in expected]


def outdated_runs(course: Course, chapters: Iterable[ChapterFacts]) -> list[Path]:
    """Executed notebooks whose lesson has changed since they ran. They stay valid until somebody runs them again."""
    from efflab.authoring.execute import fingerprint

    found = []
    for chapter in chapters:
        executed, built = _read(course.executed(chapter)), _read(course.notebook(chapter))
        if executed is None or built is None:
            continue
        ran = json.loads(executed)["metadata"].get("efflab", {}).get("lesson_sha256")
        if ran != fingerprint(built.replace("\r\n", "\n")):
            found.append(course.executed(chapter))
    return found


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _short_diff(there: str, wanted: str) -> str:
    lines = [line.rstrip("\n") for line in difflib.unified_diff(
        there.splitlines(), wanted.splitlines(), "as it is", "as its sources make it", n=1, lineterm="")]
    shown = [line[:160] for line in lines[:DIFF_LINES]]
    left = len(lines) - len(shown)
    return "\n".join(shown + ([f"… {left} more lines"] if left else []))
