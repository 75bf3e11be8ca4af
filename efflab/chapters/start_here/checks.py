"""The first exercise: root mean square."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from efflab.chapters.start_here import mistakes
from efflab.checking import Case, Draw, Exercise, Output


def rms_reference(x: torch.Tensor) -> torch.Tensor:
    total = (x * x).sum(-1)                                      # (...)
    return (total / x.shape[-1]) ** 0.5


def rms_baseline(x: torch.Tensor) -> torch.Tensor:
    """What PyTorch gives in x's dtype when the squares are kept in float32."""
    return (torch.linalg.vector_norm(x.float(), dim=-1) / x.shape[-1] ** 0.5).to(x.dtype)


def rms_cases(draw: Draw) -> Iterator[Case]:
    yield Case(name="one vector", inputs={"x": draw.normal(17)})
    yield Case(name="square, mean not zero", inputs={"x": draw.normal(5, 5, shift=2.0)})
    yield Case(name="three axes", inputs={"x": draw.normal(2, 3, 33)})
    yield Case(name="one element a row", inputs={"x": draw.normal(4, 1)})
    yield Case(name="rows not adjacent in memory", inputs={"x": draw.normal(6, 9, layout="transposed")})
    yield Case(name="large float16 values", inputs={"x": draw.normal(3, 64, dtype=torch.float16, scale=1000.0)})


EXERCISES = (
    Exercise(
        chapter="start_here", name="rms", summary="Return the root mean square of x along its last axis.",
        reference=rms_reference, baseline=rms_baseline, cases=rms_cases, outputs=(Output("y", "x"),),
        mistakes=mistakes.RMS, points=1, minutes=1, difficulty="easy",
        hints=("Read the name backwards: square, then mean, then root.",
               "x.square().mean(dim=-1).sqrt() is nearly it. What is the largest float16?",
               "Go to float32 before squaring (x.float()) and back to x.dtype at the end."),
    ),
)
