"""Which chapters a submission answers: its file's name, then what its text says, then its functions' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from efflab import course
from efflab.checking.exercise import Exercise
from efflab.grade.submission import Code, Submission, Unreadable, merge, read, shown

_EXERCISE_LINE = re.compile(r"^\s*#\s*exercise:?\s+(\w+)\.\w+", re.I | re.M)


def read_submission(submission: Submission, chapter: str | None = None) -> tuple[Code, list[str]]:
    """What a submission defines, and the chapters it is graded for, in the course's order.

    chapter: grade as this chapter, whatever the files are called. Raises Unreadable, course.UnknownChapter.
    """
    codes, slugs = [], []
    for path in submission.files:
        code = read(path)
        codes.append(code)
        slugs += [course.chapter(chapter).slug] if chapter else chapters_of(path, code)
    order = [c.slug for c in course.CHAPTERS]
    return merge(codes) if len(codes) > 1 else codes[0], sorted(set(slugs), key=order.index)


def chapters_of(path: Path, code: Code) -> list[str]:
    """The chapters that one file answers. Raises Unreadable when nothing in it tells."""
    try:
        return [course.chapter(path.name).slug]
    except course.UnknownChapter as unknown:
        found = _named_in_text(code) or _with_functions_of(code)
        if found:
            return found
        hint = re.search(r"Did you mean [^?]*\?", str(unknown))
        raise Unreadable(f"{shown(path.name)} answers no chapter that can be told: its name is no chapter's, and it "
                         f"defines no exercise's function.{' ' + hint.group(0) if hint else ''} Say which with "
                         "--chapter, and keep the functions' names.") from None


def _named_in_text(code: Code) -> list[str]:
    ready = {c.slug for c in course.ready_chapters()}
    named = [slug for unit in code.units for slug in _EXERCISE_LINE.findall(unit.text)]
    return [slug for slug in dict.fromkeys(named) if slug in ready]


def _with_functions_of(code: Code) -> list[str]:
    names = code.names() | {n for b in code.broken for n in b.names}
    return [c.slug for c in course.ready_chapters() if any(e.name in names for e in course.exercises(c.slug))]


def exercises_of(slugs: Sequence[str], only: str | None = None) -> list[Exercise]:
    """All exercises of these chapters in order. only: just the one called so.

    Raises UnknownChapter, UnknownExercise.
    """
    found = [e for slug in slugs for e in course.exercises(slug)]
    if only is None:
        return found
    wanted = course.find_exercise(only, prefer=slugs[0] if slugs else None)
    if wanted.id not in {e.id for e in found}:
        raise course.UnknownExercise(f"{wanted.id} is not among the exercises of {', '.join(slugs)}.")
    return [wanted]
