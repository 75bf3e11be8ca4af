"""A complete chapter lacks nothing; each thing taken away is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from authoring.tiny_course import CHAPTERS
from efflab.authoring.complete import lacks
from efflab.authoring.layout import Course
from efflab.authoring.skeleton import skeleton_files

HALVE = CHAPTERS[1]


@dataclass(frozen=True)
class Full:
    name: str
    mistakes: Sequence[str]
    hints: Sequence[str]
    points: int = 1
    minutes: int = 1
    difficulty: str = "easy"


FOUR = Full("halve_example", "abcd", "ab")


@pytest.fixture
def full(tiny: Course) -> Course:
    """The small course with a skeleton filled in as its chapter 01."""
    for path, text in skeleton_files(tiny, HALVE).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("TODO", "Done 1"), encoding="utf-8")
    return replace(tiny, exercises={"halve": (FOUR,)}.__getitem__)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_complete_chapter_lacks_nothing(full: Course) -> None:
    assert lacks(full, HALVE) == []


def test_a_fresh_skeleton_lacks_only_what_is_to_do(full: Course) -> None:
    for path, text in skeleton_files(full, HALVE).items():
        path.write_text(text, encoding="utf-8")
    found = lacks(full, HALVE)
    assert found
    assert all(sentence.endswith("has a TODO") for sentence in found)


def test_missing_files_are_named(full: Course) -> None:
    full.lesson(HALVE).unlink()
    (full.root / "tests" / "chapters" / "test_halve.py").unlink()
    assert lacks(full, HALVE) == ["notebooks/01_halve.md is not there", "tests/chapters/test_halve.py is not there"]


@pytest.mark.parametrize(("exercise", "sentence"), [
    (replace(FOUR, mistakes="abc"), "halve_example has 3 mistakes; at least 4 are wanted"),
    (replace(FOUR, hints="a"), "halve_example has 1 hint; two or three are wanted"),
    (replace(FOUR, hints="abcd"), "halve_example has 4 hints; two or three are wanted"),
    (replace(FOUR, name="other"), "solutions/halve.py has no other"),
])
def test_exercises(full: Course, exercise: Full, sentence: str) -> None:
    assert sentence in lacks(replace(full, exercises={"halve": (exercise,)}.__getitem__), HALVE)


def test_two_mistakes_suffice_for_one_line(full: Course) -> None:
    two = replace(full, exercises={"halve": (replace(FOUR, mistakes="ab"),)}.__getitem__)
    assert lacks(two, HALVE) == ["halve_example has 2 mistakes; at least 4 are wanted"]
    text = full.solution(HALVE).read_text(encoding="utf-8")
    inside = text[text.index("    y = torch"):text.index("    # END")]
    edit(full.solution(HALVE), inside, "    # one line\n\n    return x\n")
    assert lacks(two, HALVE) == []


def test_a_chapter_without_an_exercise(full: Course) -> None:
    assert "there is no exercise" in lacks(replace(full, exercises={"halve": ()}.__getitem__), HALVE)


MANY = "word " * 160
LONG = "\n".join(f"a{i} = {i}" for i in range(16))


@pytest.mark.parametrize(("old", "new", "sentence"), [
    ("Done 1: open", MANY + "1 open", "words before its first cell to run; 150 at most"),
    ("**Exercise.**", MANY * 4, "words before its first exercise; 600 at most"),
    ("figures.explore(halve_example)", LONG, "is a cell of 16 lines; 15 at most"),
    ("# exercise: halve.halve_example", "1", "has no cell for the exercise halve_example"),
    ("halve_example = check(halve_example)", "1", "the next code cell is not `halve_example = check(halve_example)`"),
    (":tags: [exact]", "", "tags no cell as exact"),
    ("show.quiz", "ask", "has no quiz (show.quiz)"),
    ("show.predict", "guess", "has no estimate to commit to (show.predict)"),
    ("figures.", "pictures.", "shows nothing from its figures.py"),
])
def test_lessons(full: Course, old: str, new: str, sentence: str) -> None:
    edit(full.lesson(HALVE), old, new)
    assert any(sentence in found for found in lacks(full, HALVE)), lacks(full, HALVE)


def test_an_opening_without_a_number(full: Course) -> None:
    lesson = full.lesson(HALVE)
    lesson.write_text("Long ago.\n\n" + lesson.read_text(encoding="utf-8").split("---\n")[2], encoding="utf-8")
    assert lacks(full, HALVE) == ["notebooks/01_halve.md does not open with a number in its first paragraph"]


def test_cells_that_are_long_in_the_median(full: Course) -> None:
    lesson = full.lesson(HALVE)
    six = "\n".join(f"a{i} = {i}" for i in range(6))
    with lesson.open("a", encoding="utf-8") as file:
        file.write(f"\n```{{code-cell}} ipython3\n{six}\n```\n" * 9)
    assert lacks(full, HALVE) == ["notebooks/01_halve.md: the median cell has 6 lines; 5 at most"]


@pytest.mark.parametrize(("call", "sentence"), [("figure", "the chapter has no picture (show.figure)"),
                                                ("controls", "the chapter has no widget (show.controls)")])
def test_pictures_and_widgets(full: Course, call: str, sentence: str) -> None:
    edit(full.checks(HALVE).parent / "figures.py", f"show.{call}(", "print(")
    assert lacks(full, HALVE) == [sentence]


def test_exercises_in_another_order(full: Course) -> None:
    second = replace(FOUR, name="halve_second")
    edit(full.solution(HALVE), "import torch\n", "import torch\n\n\ndef halve_second(x):\n    # BEGIN SOLUTION\n"
                                                 "    return x\n    # END SOLUTION\n")
    with full.lesson(HALVE).open("a", encoding="utf-8") as file:
        file.write("\n```{code-cell} ipython3\n# exercise: halve.halve_second\n```\n\n"
                   "```{code-cell} ipython3\nhalve_second = check(halve_second)\n```\n")
    assert lacks(replace(full, exercises={"halve": (FOUR, second)}.__getitem__), HALVE) == []
    assert lacks(replace(full, exercises={"halve": (second, FOUR)}.__getitem__), HALVE) == [
        "notebooks/01_halve.md asks for halve_example, halve_second, in another order than EXERCISES of its checks.py"]
