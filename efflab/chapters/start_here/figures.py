"""The map of the course with the learner's progress, and the picture of what a check does."""

from __future__ import annotations

from typing import Any

from efflab import course
from efflab.checking import progress


def course_map() -> Any:
    """The table of all chapters with points reached so far; displays itself as HTML and as text."""
    from efflab.checking.commands import Map

    return Map.of(course.CHAPTERS, progress.load())


def explore_rms(rms: Any) -> Any:
    """Two sliders, the size and the offset of random values, and what the learner's own rms says about them."""
    import ipywidgets
    import torch

    from efflab import show

    def update(scale: float, shift: float) -> None:
        x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * scale + shift
        print(f"values {scale:.1f} * N(0, 1) + {shift:.1f}")
        print(f"your rms             {rms(x).item():8.4f}")
        print(f"sqrt(scale² + shift²) {(scale**2 + shift**2) ** 0.5:7.4f}   what 1,000 values should come close to")

    return show.controls(update, scale=ipywidgets.FloatSlider(value=1.0, min=0.1, max=5.0, step=0.1, description="scale"),
                         shift=ipywidgets.FloatSlider(value=0.0, min=-5.0, max=5.0, step=0.5, description="shift"))
