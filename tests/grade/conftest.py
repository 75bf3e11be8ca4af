"""A chapter "toys" for the grader's tests, and both kinds of walls."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from efflab import course
from efflab.grade import isolate, pool
from efflab.grade.grading import Result, Settings
from efflab.grade.submission import find

RIGHT = """
import torch


def double(x):
    return x * 2


def sum_and_product(a, b):
    return a + b, a * b


def softmax_rows(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def successor(n):
    return n + 1
"""


class Written(course.Chapter):
    """A chapter that is ready though no folder holds it."""

    ready = True  # type: ignore[assignment]


@pytest.fixture(scope="module", autouse=True)  # a wider scope would show the toys to other folders' tests
def toys() -> Iterator[ModuleType]:
    """Register the test chapter; graders inherit it, the submissions' processes never see it."""
    checks = course.load_file(Path(__file__).with_name("toys.py"), "efflab.chapters.toys.checks")
    package = ModuleType("efflab.chapters.toys")
    package.__spec__ = importlib.machinery.ModuleSpec("efflab.chapters.toys", None, is_package=True)
    package.__path__ = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "efflab.chapters.toys", package)
        patch.setitem(sys.modules, "efflab.chapters.toys.checks", checks)
        patch.setattr(course, "CHAPTERS", (*course.CHAPTERS, Written(99, "toys", "Toys", "Tests", "toys")))
        yield checks


@pytest.fixture(scope="session")
def bwrap_walls() -> isolate.Walls:
    """Bubblewrap, or a skip that says why not."""
    found = isolate.walls(seconds=20.0)
    if found.bwrap is None:
        pytest.skip(f"bubblewrap {found.why_not}")
    return found


@pytest.fixture(scope="module", params=["bwrap", "limits"])
def walls(request: pytest.FixtureRequest) -> isolate.Walls:
    if request.param == "bwrap":
        request.getfixturevalue("bwrap_walls")
    return isolate.walls(bwrap=request.param == "bwrap", seconds=8.0, memory=3 << 28)


@pytest.fixture(scope="session")
def right() -> str:
    return RIGHT


@pytest.fixture(scope="session")
def grade() -> Callable[..., list[Result]]:
    def run(walls: isolate.Walls, *paths: Path, jobs: int = 1, seed: int = 5, **settings: Any) -> list[Result]:
        return pool.grade_all(find(paths), Settings(walls=walls, seed=seed, **settings), jobs=jobs)

    return run
