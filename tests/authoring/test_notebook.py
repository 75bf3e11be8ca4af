"""A lesson made into a notebook: what it holds, that its bytes are stable, and that bad lessons are refused by line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest

from authoring.tiny_course import CHAPTERS, DOUBLE, LESSON
from efflab.authoring.errors import AuthoringError
from efflab.authoring.layout import Course
from efflab.authoring.notebook import notebook_text
from efflab.authoring.stubs import stubs_text


def built(course: Course) -> Any:
    return nbformat.reads(notebook_text(course, DOUBLE), as_version=4)


def sources(course: Course) -> list[str]:
    return [cell.source for cell in built(course).cells]


def with_lesson(course: Course, lesson: str) -> Course:
    course.lesson(DOUBLE).write_text(lesson, encoding="utf-8")
    return course


def test_the_first_cell_names_chapter_minutes_points_and_the_way_into_colab(tiny: Course) -> None:
    assert sources(tiny)[0] == (
        "# Doubling\n\nNumbers · Chapter 02 of 02 · 2 exercises · about 11 minutes · 4 points\n\n"
        "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
        "(https://colab.research.google.com/github/somebody/course/blob/main/notebooks/02_double.ipynb)\n\n"
        "Previous: 01 Halving (planned) · [All chapters](00_start.ipynb)")


def test_the_start_page_has_no_position_and_links_the_next_written_chapter(tiny: Course) -> None:
    first = nbformat.reads(notebook_text(tiny, CHAPTERS[0]), as_version=4).cells[0].source
    assert "Chapter" not in first
    assert first.endswith("Next: 01 Halving (planned), then [02 Doubling](02_double.ipynb)")


def test_a_chapter_without_its_sources_is_not_linked(tiny: Course) -> None:
    tiny.lesson(DOUBLE).unlink()
    first = nbformat.reads(notebook_text(tiny, CHAPTERS[0]), as_version=4).cells[0].source
    assert first.endswith("Next: 01 Halving (planned)")


def test_neighbours_that_are_written_are_linked(tiny: Course) -> None:
    chapters = (CHAPTERS[0], replace(CHAPTERS[1], ready=True), DOUBLE)
    for path in (tiny.lesson(chapters[1]), tiny.solution(chapters[1]), tiny.checks(chapters[1])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    last = sources(replace(tiny, chapters=chapters))[-1]
    assert last == "---\n\nPrevious: [01 Halving](01_halve.ipynb) · [All chapters](00_start.ipynb)"


@pytest.mark.parametrize("repository", ["https://gitlab.com/somebody/course", "file:///srv/course"])
def test_colab_is_offered_only_where_it_can_read(tiny: Course, repository: str) -> None:
    cells = sources(replace(tiny, repository=repository))
    assert "colab" not in cells[0].lower()
    assert f'%pip install -q "git+{repository}"' in cells[1]


def test_the_setup_cell(tiny: Course) -> None:
    assert sources(tiny)[1] == """\
# Setup. On Colab this installs efflab; torch and triton stay as they are.
try:
    import efflab
except ModuleNotFoundError:
    %pip install -q "git+https://github.com/somebody/course"
    import efflab
from efflab import check, hint, solution
efflab.begin("double")"""


def test_exercise_cells_hold_stubs_and_given_cells_whole_definitions(tiny: Course) -> None:
    cells = sources(tiny)
    assert cells[5] == '''\
# Given, from solutions/double.py
LIMIT = 4
ROOT = math.sqrt(LIMIT)


# Raise what is too small,
# and say so.
def checked(x: int) -> int:
    """x, not negative."""
    if x < 0:
        raise ValueError("# BEGIN SOLUTION is not a marker here")
    return x'''
    assert cells[6] == '''\
# Exercise double.double · 1 point · about 1 minute · easy
def double(x: int) -> int:
    """Twice x."""
    x = checked(x)
    raise NotImplementedError("double: your code goes here")'''
    assert cells[9] == '''\
# Exercise double.launch · 3 points · about 10 minutes · hard
@jit
def double_kernel(x_ptr, N):
    i = program_id(0)
    pass  # your code goes here


def launch(x):
    """Twice x, by a kernel."""
    raise NotImplementedError("launch: your code goes here")'''


def test_nothing_of_an_answer_is_in_a_built_file(tiny: Course) -> None:
    for text in (notebook_text(tiny, DOUBLE), stubs_text(tiny, DOUBLE)):
        assert "secret" not in text
        assert "2 * load" not in text
        assert "END SOLUTION" not in text


def test_the_file_is_clean(tiny: Course) -> None:
    text = notebook_text(tiny, DOUBLE)
    notebook = built(tiny)
    nbformat.validate(notebook)
    assert text.endswith("}\n")
    assert "jupytext" not in text
    assert notebook.metadata.efflab.built == (
        "built from notebooks/02_double.md and solutions/double.py by `efflab build`")
    assert set(notebook.metadata) == {"efflab", "kernelspec", "language_info"}
    for cell in notebook.cells:
        assert cell.cell_type == "markdown" or (cell.outputs, cell.execution_count) == ([], None)
        assert not any(line != line.rstrip() for line in cell.source.split("\n"))
    assert [c.metadata for c in notebook.cells if c.metadata] == [{"tags": ["exact"]}]
    assert json.loads(text, object_pairs_hook=lambda pairs: [k for k, _ in pairs] == sorted(k for k, _ in pairs))


def test_the_same_sources_give_the_same_bytes(tiny: Course) -> None:
    first = notebook_text(tiny, DOUBLE)
    assert notebook_text(tiny, DOUBLE) == first
    lesson = tiny.lesson(DOUBLE)
    lesson.write_bytes(lesson.read_bytes().replace(b"\n", b"\r\n"))
    assert notebook_text(tiny, DOUBLE) == first


def test_a_new_cell_changes_no_other_cells_id(tiny: Course) -> None:
    before = {c.source: c.id for c in built(tiny).cells}
    after = built(with_lesson(tiny, LESSON.replace("Write it.", cell("1") + "\nWrite it.")))
    assert all(before[c.source] == c.id for c in after.cells if c.source in before)
    assert len({c.id for c in after.cells}) == len(after.cells) == len(before) + 2


def test_equal_cells_have_different_ids(tiny: Course) -> None:
    cells = built(with_lesson(tiny, cell("1") + cell("1"))).cells
    assert len({c.id for c in cells}) == len(cells)


def cell(text: str) -> str:
    return f"One.\n\n```{{code-cell}} ipython3\n{text}\n```\n"


@pytest.mark.parametrize(("lesson", "line", "words"), [
    ("One.\n\n```{note}\nhello\n```\n", 3, "MyST directive"),
    ("One.\n\n:::{note}\nhello\n:::\n", 3, "MyST directive"),
    ("One.\n\nTwo\nof {ref}`here`.\n", 4, "roles"),
    ("One.\n\n(target)=\n", 3, "targets"),
    ("One.\n\n% a comment\n", 3, "targets and comments"),
    ("One.\n\n```{code-cell} python\n1\n```\n", 3, "ipython3"),
    ("- One.\n\n  ```{code-cell} ipython3\n  1\n  ```\n", 3, "left margin"),
    ("One.\n\n```{code-cell} ipython3\n:tags: [exactly]\n1\n```\n", 3, "exactly"),
    ("One.\n\n```{code-cell} ipython3\n:name: x\n1\n```\n", 3, "name"),
    ("---\nkernelspec:\n  name: python3\n---\n\nOne.\n\n```{note}\n```\n", 8, "MyST directive"),
    (cell("# exercise: double.trouble"), 3, "no exercise of this chapter. Its exercises: double.double, double.launch"),
    (cell("# exercise: halve.double"), 3, "no exercise of this chapter"),
    (cell("# exercise: double"), 3, "not understood"),
    (cell("# exercise: double.double = checked"), 3, "not understood"),
    (cell("# exercise: double.double = double, double"), 3, "not understood"),
    (cell("# exercise: double.double = double, "), 3, "not understood"),
    (cell("# Exercise: double.double"), 3, "not understood"),
    (cell("# exercise: double.double\n1"), 3, "nothing else"),
    (cell("# exercise: double.double = kernel, double"), 3, "defines no kernel"),
    (cell("# exercise: double.double") + cell("# exercise: double.double"), 8, "line 3"),
    (cell("# given: double.nothing"), 3, "defines no nothing"),
    (cell("# given: double.double"), 3, "learners write it"),
    (cell("# given: double.double_kernel"), 3, "learners write it"),
    (cell("# given: triple.triple"), 3, "there is no solutions/triple.py"),
    (cell("# given: double.LIMIT = 3"), 3, "not understood"),
])
def test_a_bad_lesson_is_refused_with_its_line(tiny: Course, lesson: str, line: int, words: str) -> None:
    with pytest.raises(AuthoringError) as caught:
        notebook_text(with_lesson(tiny, lesson), DOUBLE)
    assert str(caught.value).startswith(f"notebooks/02_double.md:{line}: "), str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("lesson", [
    "A `{ref}` in code, `{a: 1}`, $\\frac{a}{b}$, {} and {name}.\n",
    "```python\n# {note}\n:::\n% fine\n```\n",
    "    {note}`indented code`\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n\n100 % of it.\n",
])
def test_plain_markdown_is_let_through(tiny: Course, lesson: str) -> None:
    assert lesson.strip("\n") in "\n".join(sources(with_lesson(tiny, lesson)))


def test_a_long_list_may_go_over_several_lines(tiny: Course) -> None:
    lesson = cell("# given: double.LIMIT,\n#     checked")
    assert "def checked" in sources(with_lesson(tiny, lesson))[3]


def test_an_exercise_without_a_region_is_refused_at_its_line(tiny: Course) -> None:
    solution = tiny.solution(DOUBLE)
    text = solution.read_text(encoding="utf-8")
    solution.write_text(text.replace("    # BEGIN SOLUTION\n    answer", "    answer").replace(
        "    return answer\n    # END SOLUTION\n", "    return answer\n"), encoding="utf-8")
    for make in (notebook_text, stubs_text):
        with pytest.raises(AuthoringError, match=r"^solutions/double.py:18: double is .* nothing to cut out"):
            make(tiny, DOUBLE)


def test_the_stub_file_says_where_it_comes_from_and_how_to_check_it(tiny: Course, tmp_path: Path) -> None:
    text = stubs_text(tiny, DOUBLE)
    assert text.startswith("# Built from solutions/double.py by `efflab build`")
    assert "./run check work/double.py" in text.split('"""')[0]
    assert text.count("NotImplementedError") == 2
    assert text.count("pass  # your code goes here") == 1
    compile(text, "double.py", "exec")


def test_a_stub_file_runs_as_a_module_and_its_exercises_raise(tiny: Course) -> None:
    namespace: dict[str, Any] = {"jit": lambda f: f}
    exec(compile(stubs_text(tiny, DOUBLE), "double.py", "exec"), namespace)
    with pytest.raises(NotImplementedError, match="double: your code goes here"):
        namespace["double"](1)


def test_an_exercise_that_the_solutions_lack_is_refused(tiny: Course) -> None:
    tiny.solution(DOUBLE).write_text("import math\n", encoding="utf-8")
    with pytest.raises(AuthoringError, match=r"defines no double, .*efflab/chapters/double/checks.py"):
        stubs_text(tiny, DOUBLE)
