"""Measure chapters: each kernel's bars against its peers, its x-rays, and the chapter's curves."""

from __future__ import annotations

import datetime
import importlib
import platform
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from efflab import course
from efflab.gpu import bars, curves, xray
from efflab.gpu.doctor import driver_version
from efflab.gpu.machine import machine

if TYPE_CHECKING:
    from efflab.checking.exercise import Exercise

Tell = Callable[[str], None]


def measured_chapters() -> list[str]:
    """Slugs of the written chapters that have something to measure."""
    return [c.slug for c in course.ready_chapters() if _kernels(c.slug) or _curves(c.slug)]


def run(slugs: Iterable[str], command: str, tell: Tell = lambda text: None,
        keep: Callable[[dict[str, Any]], None] = lambda run: None) -> dict[str, Any]:
    """One run over chapters, in the form that results.save takes. keep: called with the run so far after each one."""
    head = facts(command)
    done: dict[str, Any] = {**head, "chapters": {}}
    for slug in slugs:
        done["chapters"][slug] = {**head, **chapter(slug, tell)}
        keep(done)
    return done


def facts(command: str) -> dict[str, Any]:
    """Date, GPU, versions and the command: what a number needs beside it."""
    m = machine()
    return {"gpu": m.name, "arch": m.arch, "date": datetime.date.today().isoformat(), "torch": m.torch,
            "triton": m.triton, "cuda": torch.version.cuda, "driver": driver_version(),
            "python": platform.python_version(), "command": command}


def chapter(slug: str, tell: Tell = lambda text: None) -> dict[str, Any]:
    """{"bars", "xrays", "curves", "problems"} of one chapter's solutions on this machine."""
    found: dict[str, list[Any]] = {"bars": [], "xrays": [], "curves": [], "problems": []}
    for exercise in _kernels(slug):
        tell(f"{exercise.id}: x-ray")
        seen = solution_xrays(exercise)
        found["xrays"] += [k.as_dict() for _, kernels in seen for k in kernels]
        found["problems"] += [p for x, kernels in seen for p in xray.judge_one(x, kernels)]
        for bar in exercise.kernel.bars if exercise.kernel else ():
            tell(f"{exercise.id}: {bar.name}")
            result = bars.measure(bar, course.solution_of(exercise))
            tell(result.sentence)
            found["bars"].append({"exercise": exercise.id, **result.as_dict()})
            if result.judged and not result.passed:
                found["problems"].append(result.sentence)
    for curve in _curves(slug) if torch.cuda.is_available() else ():
        tell(f"{slug}: {curve.name}")
        measured = curves.measure(curve, course.solution_module(slug))
        found["curves"].append(measured)
        found["problems"] += [f"{curve.name}: {gap}" for gap in measured["gaps"]
                              if gap.split(" ")[0] in curve.functions]
    return found


def solution_xrays(exercise: Exercise, arch: tuple[str, ...] | None = None) -> list[Any]:
    """The exercise's x-rays of the course's own solution; empty where the compiler's tools are missing."""
    if xray.available() is not None:
        return []
    return xray.exercise_xrays(exercise, solution_path(exercise), arch=arch)


def solution_path(exercise: Exercise) -> Any:
    from pathlib import Path

    file = course.solution_module(exercise.chapter).__file__
    if file is None:
        raise FileNotFoundError(f"solutions/{exercise.chapter}.py has no file")
    return Path(file)


def _kernels(slug: str) -> list[Exercise]:
    return [e for e in course.exercises(slug) if e.kernel is not None]


def _curves(slug: str) -> tuple[curves.Curve, ...]:
    return getattr(importlib.import_module(f"efflab.chapters.{slug}.checks"), "CURVES", ())
