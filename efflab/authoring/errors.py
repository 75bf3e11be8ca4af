"""What goes wrong while a lesson is written: one message that says what, where, and what to do."""

from __future__ import annotations

from pathlib import Path


class AuthoringError(ValueError):
    """A source of the course cannot be built, executed or laid out as it stands."""


def at(path: str | Path, line: int, message: str) -> AuthoringError:
    """An error with its place, in the form that editors and terminals make clickable."""
    return AuthoringError(f"{path}:{line}: {message}")
