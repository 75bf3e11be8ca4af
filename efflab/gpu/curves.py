"""A curve: speed against one size, for a chapter's solutions and their peers, measured in the same run.

A chapter that wants one defines CURVES, a tuple of Curve, in its checks module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from efflab.gpu import timing
from efflab.gpu.peers import peer

if TYPE_CHECKING:
    from efflab.checking.draw import Draw


@dataclass(frozen=True, kw_only=True)
class Curve:
    """name: its title. axis: the size's letter. sizes: where it is measured. functions: names in the solution.
    peers: names in efflab.gpu.peers. inputs: builds the arguments for one size. work: FLOPs, or bytes, of one
    call at one size; unit: "TFLOP/s" or "TB/s", accordingly."""

    name: str
    axis: str
    sizes: tuple[int, ...]
    functions: tuple[str, ...]
    peers: tuple[str, ...]
    inputs: Callable[[Draw, int], Mapping[str, Any]]
    work: Callable[[int], float]
    unit: str = "TFLOP/s"


def measure(curve: Curve, solution: Any, *, repeats: int = 15, device: str = "cuda",
            watch: timing.Watch | None = None) -> dict[str, Any]:
    """{"name", "axis", "unit", "sizes", "series": {name: [rate or None at each size]}, "gaps": [why each None]}."""
    gaps = [f"{p}: {reason}" for p in curve.peers if (reason := peer(p).available()) is not None]
    names = (*curve.functions, *(p for p in curve.peers if peer(p).available() is None))
    series: dict[str, list[float | None]] = {name: [] for name in names}
    for size in curve.sizes:
        times = _at(curve, solution, size, repeats, device, watch, gaps)
        for name in series:
            series[name].append(curve.work(size) / (times[name] * 1e-3) / 1e12 if name in times else None)
    return {"name": curve.name, "axis": curve.axis, "unit": curve.unit, "sizes": list(curve.sizes), "series": series,
            "gaps": gaps}


def _at(curve: Curve, solution: Any, size: int, repeats: int, device: str,
        watch: timing.Watch | None, gaps: list[str]) -> dict[str, float]:
    from efflab.checking.draw import Draw

    sets = [curve.inputs(Draw(seed, device), size) for seed in range(2)]
    sides = {name: timing.Side(function=getattr(solution, name), sets=sets) for name in curve.functions}
    sides |= {name: timing.Side(function=peer(name).function, sets=[peer(name).inputs(s) for s in sets])
              for name in curve.peers if peer(name).available() is None}
    runnable = {}
    for name, side in sides.items():
        try:
            side.call(0)
            runnable[name] = side
        except Exception as error:                  # the unfused one at large sizes: a gap in its curve
            gaps.append(f"{name} at {curve.axis} = {size}: {type(error).__name__}: {str(error)[:200]}")
            if isinstance(error, torch.cuda.OutOfMemoryError):
                torch.cuda.empty_cache()
    if not runnable:
        return {}
    return {name: t.ms for name, t in timing.race(runnable, repeats=repeats, warmup=3, watch=watch).items()}
