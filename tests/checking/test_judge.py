"""Outcomes and messages for every way in which an answer can be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from efflab.checking import Case, Draw, Exercise, Forbidden, Limit, Mistake, Output, check_function
from efflab.checking.exercise import SOFTMAX


def reference(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum(-1, keepdim=True)


def no_maximum(x: torch.Tensor) -> torch.Tensor:
    return x.exp() / x.exp().sum(-1, keepdim=True)


def all_rows(x: torch.Tensor) -> torch.Tensor:
    e = (x - x.max(-1, keepdim=True).values).exp()
    return e / e.sum()


def cases(draw: Draw) -> Iterator[Case]:
    yield Case(name="small", inputs={"x": draw.normal(3, 17)})
    yield Case(name="half", inputs={"x": draw.normal(5, 7, dtype=torch.float16)})
    yield Case(name="large", inputs={"x": draw.normal(2, 9, scale=1000.0, layout="transposed")})


SOFTMAX_EXERCISE = Exercise(
    chapter="test", name="softmax_3pass", summary="Write softmax.", reference=reference, cases=cases,
    outputs=(Output("y", "x"),), hints=("a", "b"), points=4, minutes=2, difficulty="easy",
    forbidden=Forbidden(operators=SOFTMAX, instead="Write the sum out."),
    mistakes=(Mistake(name="all_rows", sentence="the sum runs over all rows", function=all_rows),
              Mistake(name="no_maximum", sentence="the maximum is not subtracted", function=no_maximum)))


def in_place(x: torch.Tensor) -> torch.Tensor:
    x -= x.max(-1, keepdim=True).values
    return reference(x)


def stub(x: torch.Tensor) -> torch.Tensor:
    raise NotImplementedError("softmax_3pass: your code goes here")


def calls_a_stub(x: torch.Tensor) -> torch.Tensor:
    def online_stats(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("online_stats: your code goes here")

    return online_stats(x)


def only_a_docstring(x: torch.Tensor) -> torch.Tensor:  # type: ignore[empty-body]
    """To be written."""


def exits(x: torch.Tensor) -> torch.Tensor:
    raise SystemExit(0)


def last_row_wrong(x: torch.Tensor) -> torch.Tensor:
    y = reference(x)
    y[-1] *= 1.01
    return y


WRONG: list[tuple[Callable[..., Any], str, str]] = [
    (stub, "not_attempted", "Nothing here yet"),
    (only_a_docstring, "not_attempted", "Nothing here yet"),
    (lambda x: print(end=""), "failed", "returned None"),
    (lambda x: (x, x), "failed", "tuple of 2"),
    (lambda x: x.sum(-1), "failed", "of shape (3, 17)"),
    (lambda x: reference(x).double(), "failed", "of dtype float32"),
    (lambda x: reference(x).to("meta"), "failed", "meta"),
    (lambda x: 3, "failed", "int 3"),
    (lambda x: x * float("nan"), "failed", "y has NaN in 51 of 51"),
    (in_place, "failed", "changed its input x"),
    (lambda x: x.missing, "error", "AttributeError"),
    (exits, "error", "SystemExit"),
    (lambda x: torch.empty(100 * 10**9), "error", "more memory than this machine has"),
    (lambda x: torch.softmax(x, -1), "failed", "aten._softmax"),
    (calls_a_stub, "error", "it calls online_stats, which is not written yet"),
    (last_row_wrong, "failed", "axis 0 (size 3): only the last"),
    (no_maximum, "failed", "(no_maximum)"),
    (all_rows, "failed", "(all_rows)"),
    (lambda x, y: x, "error", "TypeError"),
]


@pytest.mark.parametrize(("function", "outcome", "text"), WRONG, ids=[t for _, _, t in WRONG])
def test_a_wrong_answer_gets_its_own_message(function: Callable[..., Any], outcome: str, text: str) -> None:
    report = check_function(SOFTMAX_EXERCISE, function, seed=5)
    assert report.outcome == outcome
    assert text in str(report)
    assert report.points == 0
    assert report.as_dict()["max_points"] == 4


def test_a_right_answer_passes_whatever_the_seed() -> None:
    for seed in range(20):
        assert check_function(SOFTMAX_EXERCISE, reference, seed=seed).outcome == "passed"


def test_the_same_seed_gives_the_same_report() -> None:
    reports = [check_function(SOFTMAX_EXERCISE, last_row_wrong, seed=11).message for _ in range(2)]
    assert reports[0] == reports[1]


def test_an_error_of_one_part_in_a_thousand_is_refused_in_float32() -> None:
    report = check_function(SOFTMAX_EXERCISE, lambda x: reference(x) * 1.001, seed=1)
    assert report.outcome == "failed"


def test_limits_are_judged_after_the_values() -> None:
    def limited(draw: Draw) -> Iterator[Case]:
        yield Case(name="big", inputs={"x": draw.normal(8, 1000)},
                   limit=Limit(extra_bytes=1000, because="Go in blocks."))

    exercise = Exercise(chapter="t", name="f", summary="S.", reference=lambda x: x.sum(), cases=limited,
                        outputs=(Output("y", "x"),), hints=("a", "b"), points=1, minutes=1, difficulty="easy",
                        mistakes=())
    assert "Go in blocks." in str(check_function(exercise, lambda x: (x * 1).sum(), seed=0))
    assert check_function(exercise, lambda x: x.sum(), seed=0).outcome == "passed"


def test_exact_cases_and_plain_values() -> None:
    def counted(draw: Draw) -> Iterator[Case]:
        yield Case(name="n", inputs={"n": draw.integer(2, 9)}, exact=True)

    exercise = Exercise(chapter="t", name="count", summary="S.", reference=lambda n: (n * n, 2.0 * n), cases=counted,
                        outputs=(Output("a"), Output("b")), hints=("a", "b"), points=1, minutes=1, difficulty="easy",
                        mistakes=())
    assert check_function(exercise, lambda n: (n * n, 2.0 * n), seed=0).passed
    assert check_function(exercise, lambda n: (torch.tensor(n * n), 2 * n), seed=0).passed
    for wrong in (lambda n: (n * n + 1, 2.0 * n), lambda n: (n * n, 2.0 * n + 1e-9), lambda n: ("a", 1), lambda n: n):
        assert check_function(exercise, wrong, seed=0).outcome == "failed"


def test_html_escapes_what_comes_from_the_learner() -> None:
    def hostile(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("<script>alert(1)</script>")

    page = check_function(SOFTMAX_EXERCISE, hostile, seed=0)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
