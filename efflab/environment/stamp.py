"""Whether .venv is whole and up to date, by what .venv/efflab-setup.json says it was made from.

The file reads "unfinished" from before the first change to .venv until after the last check, and is replaced in one
step, so an interrupted set-up is recognised and made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Places:
    """checkout: the folder that holds ./run. All files of the set-up lie in it."""

    checkout: Path

    @property
    def venv(self) -> Path:
        return self.checkout / ".venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        return self.venv / "efflab-setup.json"

    @property
    def constraints(self) -> Path:
        return self.venv / "efflab-constraints.txt"

    @property
    def log(self) -> Path:
        return self.checkout / ".setup" / "log"

    @property
    def lock(self) -> Path:
        return self.checkout / ".setup" / "lock"


def fingerprint(checkout: Path) -> str:
    """A hash of what decides the environment: versions.txt and pyproject.toml down to its first tool's settings."""
    project = (checkout / "pyproject.toml").read_text(encoding="utf-8").split("\n[tool.")[0]
    return hashlib.sha256(f"{(checkout / 'versions.txt').read_text(encoding='utf-8')}\n{project}".encode()).hexdigest()


def read_stamp(places: Places) -> dict[str, Any] | None:
    """What .venv/efflab-setup.json says; {"state": "damaged"} when it cannot be read; None without one."""
    try:
        stamp = json.loads(places.stamp.read_text(encoding="utf-8"))
        return stamp if isinstance(stamp, dict) else {"state": "damaged"}
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {"state": "damaged"}


def write_stamp(places: Places, stamp: dict[str, Any]) -> None:
    temporary = places.stamp.with_suffix(".tmp")
    temporary.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    os.replace(temporary, places.stamp)


def settings() -> dict[str, str]:
    """What the learner asked for; kept in the stamp, so that a later set-up without them changes nothing."""
    return {name: os.environ[name] for name in ("EFFLAB_PYTHON", "EFFLAB_TORCH") if os.environ.get(name)}


def why_rebuild(places: Places, stamp: dict[str, Any] | None, version: str | None) -> str | None:
    """Why .venv cannot be kept, or None. version: of the Python in it, None when that does not run."""
    if stamp is None:
        return None
    if stamp.get("state") == "damaged" or (stamp.get("state") == "unfinished" and not stamp.get("adopted")):
        return "the last set-up did not finish"
    if stamp.get("checkout") != str(places.checkout):
        return f"this folder was moved or copied from {stamp.get('checkout')}"
    if version != stamp.get("version"):
        return f"its Python {stamp.get('version')} is now {version or 'gone'}"
    changed = [f"{name} is now {value}" for name, value in settings().items() if stamp.get(name) != value]
    return changed[0] if changed else None


def is_ready(places: Places, level: str, version: str | None) -> bool:
    """Whether .venv is whole, belongs to this folder, and has the pinned versions and what `level` needs."""
    stamp = read_stamp(places)
    return (
        stamp is not None
        and stamp.get("state") == "ready"
        and why_rebuild(places, stamp, version) is None
        and stamp.get("fingerprint") == fingerprint(places.checkout)
        and level in (stamp.get("level"), "lab")
    )
