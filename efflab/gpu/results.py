"""Measurements kept in the repository: results/<GPU name>.json, one file per GPU, one entry per chapter.

README and lessons read their numbers from here, so that each quoted number has its date, GPU and versions.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from efflab import course


class DamagedResults(ValueError):
    """A result file is not what `save` wrote; the message names it."""


def folder() -> Path | None:
    """results/ of the checkout; None when efflab was installed without one."""
    top = course.root()
    return None if top is None else top / "results"


def file_name(gpu: str) -> str:
    """ "NVIDIA H200" -> "NVIDIA_H200.json"."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", gpu).strip("_") + ".json"


def load_all(where: Path | None = None) -> dict[str, dict[str, Any]]:
    """All result files by GPU name; empty when there are none."""
    where = where or folder()
    if where is None or not where.is_dir():
        return {}
    found = [read(path) for path in sorted(where.glob("*.json"))]
    return {result["gpu"]: result for result in found}


def load(gpu: str | None = None, where: Path | None = None) -> dict[str, Any] | None:
    """The measurements on one GPU: {"gpu", "arch", "date", ..., "chapters": {slug: {..., "bars": [...]}}}.

    gpu: part of its name ("H200"). None: this machine's GPU if it was measured, else the one measured last.
    Returns None when there is nothing to load.
    """
    results = load_all(where)
    if gpu is not None:
        return next((result for name, result in results.items() if gpu in name), None)
    from efflab.gpu.machine import machine

    return results.get(machine().name) or max(results.values(), key=lambda r: r["date"], default=None)


def bar(slug: str, name: str, gpu: str | None = None, where: Path | None = None) -> dict[str, Any] | None:
    """One measured bar of a chapter by its name; None when it was not measured."""
    found = load(gpu, where)
    bars = found["chapters"].get(slug, {}).get("bars", []) if found else []
    return next((b for b in bars if b["name"] == name), None)


def read(path: Path) -> dict[str, Any]:
    """One result file. Raises DamagedResults."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DamagedResults(f"{path} is not JSON ({error}); measure again with efflab bench, or restore it") from None
    if not isinstance(result, dict) or not {"gpu", "date", "chapters"} <= set(result):
        raise DamagedResults(f"{path} holds no measurements: expected gpu, date, chapters; measure again with "
                             "efflab bench, or restore it")
    return result


def merge(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """The new run's head and chapters; chapters that it did not measure are kept with their own date and versions."""
    chapters = {**(old or {}).get("chapters", {}), **new["chapters"]}
    order = [c.slug for c in course.CHAPTERS]
    return {**new, "chapters": {s: chapters[s] for s in sorted(chapters, key=lambda s: (s not in order, s in order
                                                                                        and order.index(s)))}}


def save(new: dict[str, Any], path: Path) -> None:
    """Merge a run into its file. Raises DamagedResults when that file cannot be read: it is not overwritten."""
    merged = merge(read(path) if path.exists() else None, new)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
