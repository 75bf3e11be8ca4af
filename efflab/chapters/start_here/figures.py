"""The map of the course with the learner's progress, and a first widget on the learner's own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from efflab import course, show
from efflab.checking import progress


def course_map() -> Any:
    """The table of all chapters with points reached so far; displays itself as HTML and as text."""
    from efflab.checking.commands import Map

    return Map.of(course.CHAPTERS, progress.load())


def explore_rms(rms: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Two sliders, scale and shift of random values, and what the learner's own rms says about them."""

    def update(scale: int, shift: int) -> None:
        x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * scale + shift      # (1000,)
        measured, ideal = rms(x).item(), (scale**2 + shift**2) ** 0.5
        print(f"1,000 values from N({shift}, {scale}²)")
        print(f"  your rms              {measured:6.3f}")
        print(f"  √(scale² + shift²)    {ideal:6.3f}")

    show.controls(update, scale=show.slider(1, 5, 1, label="scale"), shift=show.slider(-5, 5, 0, label="shift"))
