"""A lesson and its solutions made into the notebook that learners open.

header · setup · the lesson's cells, exercise and given cells filled from the solutions · footer
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from efflab.authoring.errors import at
from efflab.authoring.layout import ChapterFacts, Course, ExerciseFacts
from efflab.authoring.lesson import Cell, Directive, directive, read_lesson
from efflab.authoring.regions import Solution

BRANCH = "main"
SETUP = """\
# Setup. On Colab this installs efflab; torch and triton stay as they are.
try:
    import efflab
except ModuleNotFoundError:
    %pip install -q "git+{repository}"
    import efflab
from efflab import check, hint, solution
efflab.begin("{slug}")"""


def notebook_text(course: Course, chapter: ChapterFacts) -> str:
    """The built .ipynb, the same bytes for the same sources. Raises AuthoringError."""
    import nbformat

    lesson_file = course.shown(course.lesson(chapter))
    lesson = read_lesson(course.lesson(chapter).read_text(encoding="utf-8"), lesson_file)
    filler = Filler(course, chapter, lesson_file)
    cells = [Cell("markdown", header(course, chapter), 0),
             Cell("code", SETUP.format(repository=course.repository, slug=chapter.slug), 0),
             *(filler.filled(cell) for cell in lesson),
             Cell("markdown", footer(course, chapter), 0)]
    built_from = f"built from {lesson_file} and {course.shown(course.solution(chapter))} by `efflab build`"
    notebook = nbformat.from_dict({
        "cells": _with_ids(cells, chapter.slug),
        "metadata": {
            "efflab": {"built": built_from, "chapter": chapter.slug},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4, "nbformat_minor": 5})
    nbformat.validate(notebook)
    return to_json(notebook)


def to_json(notebook: Any) -> str:
    """Notebook text with sorted keys and a newline at its end."""
    import nbformat

    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


class Filler:
    """Fills the exercise and given cells of one chapter's lesson."""

    def __init__(self, course: Course, chapter: ChapterFacts, lesson_file: str) -> None:
        self.course, self.chapter, self.lesson_file = course, chapter, lesson_file
        self.exercises = {e.name: e for e in course.exercises(chapter.slug)}
        self._solutions: dict[str, Solution] = {}
        self._filled: dict[str, int] = {}

    def filled(self, cell: Cell) -> Cell:
        wanted = directive(cell, self.lesson_file)
        if wanted is None:
            return cell
        source = self._exercise(wanted, cell) if wanted.kind == "exercise" else self._given(wanted, cell)
        return Cell("code", source, cell.line)

    def _exercise(self, wanted: Directive, cell: Cell) -> str:
        exercise = self.exercises.get(wanted.exercise)
        if wanted.slug != self.chapter.slug or exercise is None:
            raise at(self.lesson_file, cell.line, f"{wanted.slug}.{wanted.exercise} is no exercise of this chapter. "
                     f"Its exercises: {', '.join(f'{self.chapter.slug}.{e}' for e in self.exercises)}.")
        if exercise.name in self._filled:
            raise at(self.lesson_file, cell.line, f"{exercise.name} was asked for in line "
                     f"{self._filled[exercise.name]} already; an exercise has one cell.")
        self._filled[exercise.name] = cell.line
        solution = self._solution(wanted, cell)
        if not solution.has_region(exercise.name):
            raise at(solution.filename, solution.definitions[exercise.name].node.lineno,
                     f"{exercise.name} is an exercise and has nothing to cut out; put # BEGIN SOLUTION and "
                     "# END SOLUTION around the part that learners write.")
        return "\n".join([exercise_line(self.chapter.slug, exercise),
                          together(solution, wanted.names, [solution.stub(n) for n in wanted.names])])

    def _given(self, wanted: Directive, cell: Cell) -> str:
        solution = self._solution(wanted, cell)
        for name in wanted.names:
            if name in self.exercises or solution.has_region(name):
                raise at(self.lesson_file, cell.line, f"{name} has an answer in it and cannot be given; "
                                                      "learners write it.")
        return "\n".join([f"# Given, from solutions/{wanted.slug}.py",
                          together(solution, wanted.names, [solution.full(n) for n in wanted.names])])

    def _solution(self, wanted: Directive, cell: Cell) -> Solution:
        if wanted.slug not in self._solutions:
            path = self.course.root / "solutions" / f"{wanted.slug}.py"
            if not path.is_file():
                raise at(self.lesson_file, cell.line, f"there is no solutions/{wanted.slug}.py to take "
                                                      f"{', '.join(wanted.names)} from.")
            self._solutions[wanted.slug] = Solution.read(path, self.course.shown(path))
        solution = self._solutions[wanted.slug]
        unknown = [n for n in wanted.names if n not in solution.definitions]
        if unknown:
            raise at(self.lesson_file, cell.line, f"{solution.filename} defines no {', '.join(unknown)} at its top "
                                                  f"level. It defines: {', '.join(solution.definitions)}.")
        return solution


def exercise_line(slug: str, exercise: ExerciseFacts) -> str:
    """The first line of an exercise's cell, by which people and programs know it."""
    return (f"# Exercise {slug}.{exercise.name} · {plural(exercise.points, 'point')} · "
            f"about {plural(exercise.minutes, 'minute')} · {exercise.difficulty}")


def together(solution: Solution, names: tuple[str, ...], sources: list[str]) -> str:
    """Definitions one after the other: constants close together, functions and classes two lines apart."""
    text = sources[0]
    for before, name, source in zip(names, names[1:], sources[1:], strict=False):
        close = not any(hasattr(solution.definitions[n].node, "body") for n in (before, name))
        text += ("\n" if close else "\n\n\n") + source
    return text


def header(course: Course, chapter: ChapterFacts) -> str:
    """Title; part, position, minutes and points; the way into Colab; the chapters before and after."""
    exercises = course.exercises(chapter.slug)
    facts = [chapter.part] if chapter.number else []
    facts += [f"Chapter {chapter.number:02d} of {course.chapters[-1].number:02d}"] if chapter.number else []
    facts += [plural(len(exercises), "exercise"), f"about {plural(sum(e.minutes for e in exercises), 'minute')}",
              plural(sum(e.points for e in exercises), "point")]
    lines = [f"# {chapter.title}", " · ".join(facts), colab_link(course, chapter), navigation(course, chapter)]
    return "\n\n".join(line for line in lines if line)


def footer(course: Course, chapter: ChapterFacts) -> str:
    return "---\n\n" + navigation(course, chapter)


def colab_link(course: Course, chapter: ChapterFacts) -> str:
    """The Colab badge with its link; "" for a repository that is not on GitHub, where Colab cannot read it."""
    found = re.fullmatch(r"https://github\.com/([^/]+/[^/]+?)(?:\.git)?/?", course.repository)
    if not found:
        return ""
    notebook = course.shown(course.notebook(chapter))
    address = f"https://colab.research.google.com/github/{found.group(1)}/blob/{BRANCH}/{notebook}"
    return f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({address})"


def navigation(course: Course, chapter: ChapterFacts) -> str:
    """Previous and next chapter. A planned one is named without a link, with the nearest written one after it."""
    before, after = course.neighbours(chapter)
    parts = [_neighbour(course, "Previous", before), _neighbour(course, "Next", after)]
    start = course.chapters[0]
    if chapter.number > 1 and course.can_build(start):
        parts.insert(1, f"[All chapters]({start.file_stem}.ipynb)")
    return " · ".join(part for part in parts if part)


def _neighbour(course: Course, word: str, chapters: Sequence[ChapterFacts]) -> str:
    if not chapters:
        return ""
    planned = f"{word}: {_named(chapters[0])} (planned)"
    linked = next((c for c in chapters if course.can_build(c)), None)
    if linked is None:
        return planned
    link = f"[{_named(linked)}]({linked.file_stem}.ipynb)"
    if linked is chapters[0]:
        return f"{word}: {link}"
    return f"{planned}, then {link}" if linked.number else planned


def _named(chapter: ChapterFacts) -> str:
    return f"{chapter.number:02d} {chapter.title}"


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _with_ids(cells: list[Cell], slug: str) -> list[dict[str, Any]]:
    """Notebook cells. An id follows from the chapter and the cell's text, so an inserted cell changes no other."""
    seen: dict[str, int] = {}
    made: list[dict[str, Any]] = []
    for cell in cells:
        key = f"{slug}\n{cell.kind}\n{cell.source}"
        seen[key] = seen.get(key, 0) + 1
        cell_id = hashlib.sha256(f"{key}\n{seen[key]}".encode()).hexdigest()[:12]
        made.append({"cell_type": cell.kind, "id": cell_id, "source": cell.source,
                     "metadata": {"tags": list(cell.tags)} if cell.tags else {},
                     **({"outputs": [], "execution_count": None} if cell.kind == "code" else {})})
    return made
