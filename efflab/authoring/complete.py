"""What a chapter still lacks: its files, its exercises' hints and mistakes, and what every lesson has."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from efflab.authoring.layout import ChapterFacts, Course
from efflab.authoring.lesson import Cell, directive, read_lesson
from efflab.authoring.notebook import plural
from efflab.authoring.regions import Solution

WORDS_TO_FIRST_CELL, WORDS_TO_FIRST_EXERCISE = 150, 600
MEDIAN_LINES, MAX_LINES = 5, 15


def lacks(course: Course, chapter: ChapterFacts) -> list[str]:
    """One sentence for each thing that the chapter lacks; none when it is complete."""
    files = _files(course, chapter)
    missing = [f"{course.shown(path)} is not there" for path in files if not path.is_file()]
    if course.missing_sources(chapter):
        return missing
    lesson_file = course.shown(course.lesson(chapter))
    cells = read_lesson(course.lesson(chapter).read_text(encoding="utf-8"), lesson_file)
    solution = Solution.read(course.solution(chapter), course.shown(course.solution(chapter)))
    return [*missing, *_left_to_do(course, files), *_exercises(course.exercises(chapter.slug), solution),
            *_lesson(cells, lesson_file), *_asked(cells, lesson_file, course.exercises(chapter.slug)),
            *_shown(chapter, cells, sorted(course.checks(chapter).parent.glob("*.py")), lesson_file)]


def _files(course: Course, chapter: ChapterFacts) -> list[Path]:
    rooms = course.checks(chapter).parent
    return [course.lesson(chapter), course.solution(chapter), rooms / "__init__.py", rooms / "checks.py",
            rooms / "mistakes.py", rooms / "figures.py",
            course.root / "tests" / "chapters" / f"test_{chapter.slug}.py"]


def _left_to_do(course: Course, files: Sequence[Path]) -> Iterator[str]:
    for path in filter(Path.is_file, files):
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if "TODO" in line:
                yield f"{course.shown(path)}:{number} has a TODO"


def _exercises(exercises: Sequence[Any], solution: Solution) -> Iterator[str]:
    if not exercises:
        yield "there is no exercise"
    for exercise in exercises:
        if exercise.name not in solution.definitions:
            yield f"{solution.filename} has no {exercise.name}"
            continue
        needed = 2 if solution.answer_lines(exercise.name) == 1 else 4
        if len(exercise.mistakes) < needed:
            yield f"{exercise.name} has {plural(len(exercise.mistakes), 'mistake')}; at least {needed} are wanted"
        if not 2 <= len(exercise.hints) <= 3:
            yield f"{exercise.name} has {plural(len(exercise.hints), 'hint')}; two or three are wanted"


def _lesson(cells: Sequence[Cell], file: str) -> Iterator[str]:
    opening = cells[0].source.split("\n\n")[0] if cells and cells[0].kind == "markdown" else ""
    if not re.search(r"\d", opening):
        yield f"{file} does not open with a number in its first paragraph"
    runs = next((i for i, c in enumerate(cells) if c.kind == "code"), len(cells))
    if (words := _words(cells[:runs])) > WORDS_TO_FIRST_CELL:
        yield f"{file} has {words} words before its first cell to run; {WORDS_TO_FIRST_CELL} at most"
    asks = next((i for i, c in enumerate(cells) if _is_exercise(c, file)), len(cells))
    if (words := _words(cells[:asks])) > WORDS_TO_FIRST_EXERCISE:
        yield f"{file} has {words} words before its first exercise; {WORDS_TO_FIRST_EXERCISE} at most"
    code = [c for c in cells if c.kind == "code" and directive(c, file) is None]
    lengths = [_lines(c) for c in code]
    if lengths and statistics.median(lengths) > MEDIAN_LINES:
        yield f"{file}: the median cell has {statistics.median(lengths):g} lines; {MEDIAN_LINES} at most"
    for cell, length in zip(code, lengths, strict=True):
        if length > MAX_LINES:
            yield f"{file}:{cell.line} is a cell of {length} lines; {MAX_LINES} at most"
    if not any("exact" in c.tags for c in cells):
        yield f"{file} tags no cell as exact: mark those whose text is the same on every machine (:tags: [exact])"


def _asked(cells: Sequence[Cell], file: str, exercises: Sequence[Any]) -> Iterator[str]:
    """Every exercise once, in the order of EXERCISES, and checked by the cell that follows."""
    found = [(i, d.exercise) for i, c in enumerate(cells) if (d := directive(c, file)) and d.kind == "exercise"]
    names = [name for _, name in found]
    yield from (f"{file} has no cell for the exercise {e.name}" for e in exercises if e.name not in names)
    if sorted(names) == sorted(e.name for e in exercises) and names != [e.name for e in exercises]:
        yield f"{file} asks for {', '.join(names)}, in another order than EXERCISES of its checks.py"
    for i, name in found:
        following = next((c.source for c in cells[i + 1:] if c.kind == "code"), "")
        if f"{name} = check({name})" not in following:
            yield f"{file}:{cells[i].line} asks for {name}; the next code cell is not `{name} = check({name})`"


def _shown(chapter: ChapterFacts, cells: Sequence[Cell], modules: Sequence[Path], file: str) -> Iterator[str]:
    """A picture (the start page has its map) and a widget of the chapter's own, a quiz, an estimate to commit to."""
    code = "\n".join(c.source for c in cells if c.kind == "code")
    own = code + "\n".join(path.read_text(encoding="utf-8") for path in modules)
    if not re.search(r"\bfigures\.\w+\(", code):
        yield f"{file} shows nothing from its figures.py"
    for call, what in (("figure", "picture"), ("controls", "widget")):
        if not re.search(rf"\b{call}\(", own) and (call != "figure" or chapter.number):
            yield f"the chapter has no {what} (show.{call})"
    for call, what in (("quiz", "quiz"), ("predict", "estimate to commit to")):
        if not re.search(rf"\b{call}\(", own):
            yield f"{file} has no {what} (show.{call})"


def _is_exercise(cell: Cell, file: str) -> bool:
    found = directive(cell, file)
    return found is not None and found.kind == "exercise"


def _words(cells: Sequence[Cell]) -> int:
    return sum(len(re.findall(r"\w\S*", c.source)) for c in cells if c.kind == "markdown")


def _lines(cell: Cell) -> int:
    return sum(1 for line in cell.source.split("\n") if line.strip())
