"""A check starts the x-ray beside its cases, and leaves none running."""

from __future__ import annotations

import pytest
import torch

from efflab import course
from efflab.checking import check_function
from efflab.gpu import _xray_run, xray

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU the clock is asked too")


class Looking:
    """Stands for a pending x-ray, and writes down what it is asked."""

    not_run = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    def problems(self) -> list[str]:
        self.asked.append("problems")
        return ["sm_75: k spills"]

    def cancel(self) -> None:
        self.asked.append("cancel")


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    looking = Looking()
    monkeypatch.setattr(xray, "start", lambda exercise, function: looking)
    return looking


EXERCISE = course.find_exercise("scale_copy")


def test_what_the_xray_finds_fails_a_right_kernel(looking: Looking) -> None:
    report = check_function(EXERCISE, course.solution_of(EXERCISE), seed=0)
    assert (report.outcome, looking.asked) == ("failed", ["problems", "cancel"])
    assert report.message.startswith("sm_75: k spills")


def test_a_wrong_value_calls_it_off(looking: Looking) -> None:
    report = check_function(EXERCISE, lambda x, alpha: x, seed=0)
    assert (report.outcome, looking.asked) == ("failed", ["cancel"])


def test_an_interrupt_calls_it_off(looking: Looking) -> None:
    def interrupted(x: torch.Tensor, alpha: float) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_function(EXERCISE, interrupted, seed=0)
    assert looking.asked == ["cancel"]


def test_the_report_says_when_it_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> dict[str, str]:
        raise xray.XRayUnavailable("the x-ray needs cuobjdump")

    monkeypatch.setattr(_xray_run, "tools", missing)
    report = check_function(EXERCISE, course.solution_of(EXERCISE), seed=0)
    assert report.passed
    assert report.message.splitlines()[1:] == ["x-ray not run: the x-ray needs cuobjdump"]
