"""Small exercises that cost nothing, for a chapter that exists only in these tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from efflab.checking import SOFTMAX, Case, Draw, Exercise, Forbidden, Mistake, Output

COMMON: dict[str, Any] = {"chapter": "toys", "hints": ("One.", "Two."), "points": 3, "minutes": 1, "difficulty": "easy"}


def one_tensor(draw: Draw) -> Iterator[Case]:
    yield Case(name="a vector", inputs={"x": draw.normal(5)})
    yield Case(name="a matrix", inputs={"x": draw.normal(3, 4, layout="transposed")})


def two_numbers(draw: Draw) -> Iterator[Case]:
    yield Case(name="numbers", exact=True, inputs={"a": draw.integer(1, 1000), "b": draw.integer(1, 1000)})


def driven(draw: Draw) -> Iterator[Case]:
    """The drive is one that any worker has: call(function, inputs=…, drive=None)."""
    yield Case(
        name="driven",
        exact=True,
        drive="efflab.checking.observe:call",
        expect=lambda inputs, drive: inputs["n"] + 1,
        inputs={"inputs": {"n": draw.integer(0, 1000)}, "drive": None},
    )


EXERCISES = (
    Exercise(
        **COMMON,
        name="double",
        summary="Return 2 x.",
        reference=lambda x: 2 * x,
        cases=one_tensor,
        outputs=(Output("y", "x"),),
        mistakes=(Mistake(name="squared", sentence="x is squared", function=lambda x: x * x),),
    ),
    Exercise(
        **COMMON,
        name="sum_and_product",
        summary="Return a + b and a * b.",
        reference=lambda a, b: (a + b, a * b),
        cases=two_numbers,
        outputs=(Output("total"), Output("product")),
        mistakes=(),
    ),
    Exercise(
        **COMMON,
        name="softmax_rows",
        summary="Softmax.",
        reference=lambda x: torch.softmax(x, -1),
        cases=one_tensor,
        outputs=(Output("y", "x"),),
        mistakes=(),
        forbidden=Forbidden(operators=SOFTMAX, instead="Write it with exp and sum."),
    ),
    Exercise(
        **COMMON,
        name="successor",
        summary="Return n + 1.",
        reference=lambda n: n + 1,
        cases=driven,
        outputs=(Output("m"),),
        mistakes=(),
    ),
)
