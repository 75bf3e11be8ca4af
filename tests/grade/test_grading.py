"""From a submission to its result: notebooks, stubs, broken cells, seeds, jobs, chapters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from efflab import course
from efflab.grade import grading, isolate, pool
from efflab.grade.grading import Result


def cells(*sources: str) -> str:
    made: list[Any] = [{"cell_type": "code", "source": s, "metadata": {}, "outputs": []} for s in sources]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made})


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def marks(result: Result) -> dict[str, str]:
    return {r.exercise_id.partition(".")[2]: r.outcome for r in result.reports}


def stub(name: str) -> str:
    return f'def {name}(*a, **k):\n    raise NotImplementedError("{name}: your code goes here")\n'


@pytest.fixture(scope="module")
def results(walls: isolate.Walls, right: str, grade, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Several submissions graded in one run."""
    top = tmp_path_factory.mktemp("class")
    double, pair, soft, successor = ("def " + part.rstrip() for part in right.split("def ")[1:])
    files = {
        "right.py": right + "\nwhile True:\n    pass\n",
        "stubs.py": "".join(map(stub, ("double", "sum_and_product", "softmax_rows", "successor"))),
        "empty_bodies.py": "def double(x):\n    'Doc.'\ndef sum_and_product(a, b): ...\ndef softmax_rows(x): pass\n",
        "notebook.ipynb": cells(
            "%pip install efflab\nimport torch\nfrom efflab import check",
            "!ls",
            double,
            "double = check(double)",
            "input('stop here')",
            pair + "\nprint(sum_and_product(1, 2))",
            soft,
            "while True:\n    pass",
            successor,
        ),
        "broken_cell.ipynb": cells("import torch", double.replace(":", "", 1), pair, soft, successor),
        "stub_after.ipynb": cells("import torch", double, pair, soft, successor, stub("double")),
        "broken_after.ipynb": cells("import torch", double, pair, soft, successor, "def double(x:\n    return 1"),
        "shapes.py": "import torch\ndef double(x):\n    x = x * 2\n"
        "def sum_and_product(a, b):\n    return (a,)\ndef softmax_rows(x):\n    return torch.softmax(x, -1)\n"
        "def successor(n):\n    return 'text'\n",
        "calls_a_stub.py": stub("helper") + right.replace("x * 2", "helper(x)"),
        "bad_import.py": "import no_such_module\nfrom math import nothing_here\n"
        + right.replace("x * 2", "no_such_module.double(x)"),
        "bad_decorator.py": right.replace("def double", "@no_such_name\ndef double"),
        "slow_import.py": "if True:\n    import time\nclass Slow:\n    time.sleep(1.0)\n    print('noise' * 1000)\n"
        + right,
        "loop_in_a_class.py": right + "class Endless:\n    while True:\n        pass\n",
        "in_place.py": right.replace("x * 2", "x.mul_(2)"),
        "future.py": "from __future__ import annotations\n"
        + right.replace("def double(x)", "def double(x: NotDefined)"),
        "misspelt.py": right.replace("def double(", "def doubles("),
        "kept_state.py": "calls = []\n"
        + right.replace("    return a + b", "    import builtins\n    builtins.left = 1\n    return a + b").replace(
            "    return n + 1", "    import builtins\n    assert not hasattr(builtins, 'left')\n    return n + 1"
        ),
        "warns.py": "import warnings, sys\n"
        + right.replace(
            "    return x * 2", "    warnings.warn('w')\n    print('x', file=sys.stderr)\n    return x * 2"
        ),
    }
    for name, text in files.items():
        put(top / name, text)
    return {r.submission: r for r in grade(walls, top, jobs=2, chapter="toys")}


PASSED = dict.fromkeys(("double", "sum_and_product", "softmax_rows", "successor"), "passed")


@pytest.mark.parametrize(
    "name", ["right", "notebook", "stub_after", "broken_after", "slow_import", "future", "kept_state", "warns"]
)
def test_these_pass(name: str, results: dict[str, Result]) -> None:
    assert marks(results[name]) == PASSED, "\n".join(map(str, results[name].reports))
    assert results[name].score == results[name].max_score == 12
    assert results[name].passed


def test_stubs_are_not_attempted(results: dict[str, Result]) -> None:
    assert set(marks(results["stubs"]).values()) == {"not_attempted"}
    assert set(marks(results["empty_bodies"]).values()) == {"not_attempted"}
    assert results["stubs"].score == 0


def test_a_stub_or_a_broken_cell_after_the_answer_is_told(results: dict[str, Result]) -> None:
    assert "double is defined again" in results["stub_after"].reports[0].message
    assert "A definition of double was left out: SyntaxError" in results["broken_after"].reports[0].message


def test_a_broken_cell_loses_its_exercise_alone(results: dict[str, Result]) -> None:
    result = results["broken_cell"]
    assert marks(result) == PASSED | {"double": "error"}
    assert "SyntaxError" in result.reports[0].message
    assert "broken_cell.ipynb, cell 2, line 1" in result.reports[0].message


@pytest.mark.parametrize(
    ("name", "exercise", "outcome", "said"),
    [
        ("shapes", 0, "failed", "returned None"),
        ("shapes", 1, "failed", "a tuple of 1"),
        ("shapes", 2, "failed", "aten._softmax"),
        ("shapes", 3, "failed", ""),
        ("calls_a_stub", 0, "error", "helper, which is not written yet"),
        ("bad_import", 0, "error", "bad_import.py, line 1 failed: ModuleNotFoundError"),
        ("bad_decorator", 0, "error", "double could not be defined (NameError"),
        ("in_place", 0, "failed", "changed its input x"),
        ("misspelt", 0, "not_attempted", "It defines doubles; keep the name double"),
        ("loop_in_a_class", 0, "error", "stopped after 8 s, while its definitions were loaded"),
    ],
)
def test_each_fault_has_its_own_message(
    name: str, exercise: int, outcome: str, said: str, results: dict[str, Result]
) -> None:
    report = results[name].reports[exercise]
    assert (report.outcome, report.points) == (outcome, 0), str(report)
    assert said in report.message


def test_the_rest_of_a_submission_goes_on(results: dict[str, Result]) -> None:
    assert marks(results["bad_import"]) == PASSED | {"double": "error"}
    assert marks(results["bad_decorator"]) == PASSED | {"double": "error"}


def as_json(results: list[Result]) -> list[Any]:
    told = [r.as_dict() for r in results]
    for exercise in (e for r in told for e in r["exercises"]):
        exercise["seconds"] = 0
    return told


def test_same_seed_same_results_for_any_number_of_jobs(right: str, grade, tmp_path: Path) -> None:
    for n in range(4):
        put(tmp_path / f"s{n}.py", right.replace("x * 2", f"x * {n}"))
    limits = isolate.walls(bwrap=False)
    one, two = (grade(limits, tmp_path, jobs=jobs, chapter="toys") for jobs in (1, 2))
    assert [r.submission for r in one] == ["s0", "s1", "s2", "s3"]
    assert as_json(one) == as_json(two)
    other = grade(limits, tmp_path / "s3.py", seed=6, chapter="toys")
    assert other[0].score == one[3].score
    assert as_json(other) != as_json(one[3:])


def test_unreadable_files_do_not_stop_the_rest(walls: isolate.Walls, right: str, grade, tmp_path: Path) -> None:
    put(tmp_path / "a" / "toys.ipynb", "{not json")
    put(tmp_path / "b" / "toys.py", right)
    put(tmp_path / "c.py", "x = 1")
    put(tmp_path / "d.py", "")
    a, b, c, d = grade(walls, tmp_path)
    assert a.problem is not None
    assert "is not JSON" in a.problem
    assert [(r.outcome, r.message) for r in a.reports] == [("error", a.problem)] * 4
    assert (a.score, a.max_score) == (0, 12)
    assert b.passed
    assert c.problem is not None
    assert "answers no chapter" in c.problem
    assert d.problem is not None
    assert "is empty" in d.problem


def test_only_one_exercise(walls: isolate.Walls, right: str, grade, tmp_path: Path) -> None:
    (result,) = grade(walls, put(tmp_path / "toys.py", right), exercise="toys.successor")
    assert marks(result) == {"successor": "passed"}


def test_several_chapters_in_one_file(walls: isolate.Walls, right: str, grade, tmp_path: Path) -> None:
    solution = (course.root() or Path()) / "solutions" / "start_here.py"
    (result,) = grade(walls, put(tmp_path / "all.py", right + solution.read_text(encoding="utf-8")))
    assert marks(result) == {"rms": "passed"} | PASSED


def test_a_grader_that_dies_costs_one_submission(
    right: str, grade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    whole = grading.Grader.grade

    def fragile(self: grading.Grader, submission: Any) -> Result:
        if submission.name == "b":
            os._exit(3)
        return whole(self, submission)

    monkeypatch.setattr(grading.Grader, "grade", fragile)
    for name in "abc":
        put(tmp_path / f"{name}.py", right)
    a, b, c = grade(isolate.walls(bwrap=False), tmp_path, jobs=2, chapter="toys")
    assert a.passed
    assert c.passed
    assert b.problem is not None
    assert "ended while it judged" in b.problem


def test_a_harmed_worker_is_replaced(walls: isolate.Walls, right: str, grade, tmp_path: Path) -> None:
    """The parent of the submission's process is the warm worker: killing it costs at most the exercise."""
    put(
        tmp_path / "a.py",
        right.replace("    return x * 2", "    import os, time\n    os.kill(os.getppid(), 9)\n    time.sleep(3)"),
    )
    put(tmp_path / "b.py", right)
    a, b = grade(walls, tmp_path, chapter="toys")
    assert marks(a) == PASSED | {"double": "error"}
    assert b.passed


def test_default_jobs_is_the_number_of_cores() -> None:
    assert pool.default_jobs() >= 1
