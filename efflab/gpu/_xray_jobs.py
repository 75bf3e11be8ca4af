"""The x-ray's jobs, each with a key that follows everything that decides its answer, and the answers on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import efflab
from efflab.gpu import _specs
from efflab.gpu.machine import triton_version

VERSION = 2                 # of the stored answers: raise it when the worker tells more, or something else


def jobs_for(source: str, function: str, wanted: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """One job for each (arch, inputs): {"arch", "inputs", "key"}."""
    import torch

    common = json.dumps([VERSION, source, function, triton_version(), torch.__version__, _solutions_text(source)])
    jobs = []
    for arch, inputs in wanted:
        described = [[name, _specs.describe(value)] for name, value in inputs.items()]
        text = json.dumps([common, arch, described])
        jobs.append({"arch": arch, "inputs": described, "key": hashlib.sha256(text.encode()).hexdigest()})
    return jobs


def _solutions_text(source: str) -> str:
    if "solutions" not in source:
        return ""
    folder = Path(efflab.__file__).resolve().parents[1] / "solutions"
    return "".join(p.read_text(encoding="utf-8") for p in sorted(folder.glob("*.py")))


def cache_folder() -> Path:
    """Where answers are kept: $XDG_CACHE_HOME/efflab/xray, by default in ~/.cache."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "efflab" / "xray"


def load(key: str) -> dict[str, Any] | None:
    try:
        return json.loads((cache_folder() / f"{key}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def store(key: str, answer: dict[str, Any]) -> None:
    """Keep an answer without errors (those may come from elsewhere: a full disk, little memory).

    A cache that cannot be written only costs time.
    """
    if answer["error"] is not None or any(kernel["error"] for kernel in answer["kernels"]):
        return
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{key}.{os.getpid()}.part"
        part.write_text(json.dumps(answer), encoding="utf-8")
        part.replace(folder / f"{key}.json")
    except OSError:
        return
