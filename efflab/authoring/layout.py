"""Where a chapter's sources and built files lie, and what the build must know of the course.

    notebooks/NN_slug.md + solutions/slug.py  ->  notebooks/NN_slug.ipynb, exercises/slug.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from efflab.authoring.errors import AuthoringError


class ExerciseFacts(Protocol):
    """What the build reads of an efflab.checking.Exercise."""

    @property
    def name(self) -> str: ...
    @property
    def points(self) -> int: ...
    @property
    def minutes(self) -> int: ...
    @property
    def difficulty(self) -> str: ...


class ChapterFacts(Protocol):
    """What the build reads of an efflab.course.Chapter."""

    @property
    def number(self) -> int: ...
    @property
    def slug(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def file_stem(self) -> str: ...
    @property
    def ready(self) -> bool: ...


@dataclass(frozen=True)
class Course:
    """root: the checkout. chapters: all of them, in order. exercises: those of one slug, in lesson order.
    repository: the address that badges and the Colab install line use."""

    root: Path
    repository: str
    chapters: Sequence[ChapterFacts]
    exercises: Callable[[str], Sequence[ExerciseFacts]]

    def lesson(self, chapter: ChapterFacts) -> Path:
        return self.root / "notebooks" / f"{chapter.file_stem}.md"

    def notebook(self, chapter: ChapterFacts) -> Path:
        return self.root / "notebooks" / f"{chapter.file_stem}.ipynb"

    def solution(self, chapter: ChapterFacts) -> Path:
        return self.root / "solutions" / f"{chapter.slug}.py"

    def stubs(self, chapter: ChapterFacts) -> Path:
        return self.root / "exercises" / f"{chapter.slug}.py"

    def executed(self, chapter: ChapterFacts) -> Path:
        return self.root / "solutions" / "executed" / f"{chapter.file_stem}.ipynb"

    def checks(self, chapter: ChapterFacts) -> Path:
        return self.root / "efflab" / "chapters" / chapter.slug / "checks.py"

    def shown(self, path: Path) -> str:
        """The path as messages and built files give it: from the checkout's top, with forward slashes."""
        return path.relative_to(self.root).as_posix()

    def missing_sources(self, chapter: ChapterFacts) -> list[Path]:
        """The files that a build of this chapter needs and that are not there."""
        needed = (self.lesson(chapter), self.solution(chapter), self.checks(chapter))
        return [path for path in needed if not path.is_file()]

    def can_build(self, chapter: ChapterFacts) -> bool:
        return chapter.ready and not self.missing_sources(chapter)

    def neighbours(self, chapter: ChapterFacts) -> tuple[Sequence[ChapterFacts], Sequence[ChapterFacts]]:
        """The chapters before this one, nearest first, and those after it."""
        return ([c for c in self.chapters if c.number < chapter.number][::-1],
                [c for c in self.chapters if c.number > chapter.number])


def this_course() -> Course:
    """The checkout that this efflab belongs to. Raises AuthoringError when it is installed without one."""
    from efflab import course

    top = course.root()
    if top is None:
        raise AuthoringError("This efflab is installed without the course's repository, so there is nothing to build. "
                             f"Clone {course.repository()} and use the ./run in it.")
    return Course(top, course.repository(), course.CHAPTERS, course.exercises)


def write_whole(path: Path, text: str) -> None:
    """Write the file completely or not at all: a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
