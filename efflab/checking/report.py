"""What a check found, in a form that displays itself as text and as HTML. It never shows the solution."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from efflab.checking.exercise import Exercise, Mistake, Outcome

_MARKS: dict[str, str] = {"passed": "passed", "failed": "failed", "error": "error",
                          "not_attempted": "not attempted", "skipped": "skipped"}
_COLOURS: dict[str, tuple[str, str]] = {       # border, background: text stays black on them
    "passed": ("#006d4e", "#eaf6f1"), "failed": ("#b23c00", "#fdf1ea"), "error": ("#b23c00", "#fdf1ea"),
    "not_attempted": ("#5a5a5a", "#f4f4f4"), "skipped": ("#5a5a5a", "#f4f4f4")}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. kind: error, structure, in_place, overrun, values, forbidden, limit, xray, speed."""

    kind: str
    case: str
    about: str                      # the case's inputs in one line
    headline: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of one exercise. message: the report's body as plain text."""

    exercise_id: str
    outcome: Outcome
    points: float
    max_points: float
    message: str
    mistake: str | None = None
    case: str | None = None
    seed: int = 0
    seconds: float = 0.0
    note: str = ""

    @classmethod
    def of(cls, exercise: Exercise, outcome: Outcome, *, seed: int, seconds: float, passed: int = 0,
           problems: Sequence[Problem] = (), mistake: Mistake | None = None, reason: str = "") -> Report:
        """Build the text from what the judge found. reason: why a check was skipped."""
        message = reason or _message(exercise, outcome, passed, problems, mistake)
        return cls(exercise_id=exercise.id, outcome=outcome, points=exercise.points if outcome == "passed" else 0,
                   max_points=exercise.points, message=message, mistake=mistake.name if mistake else None,
                   case=problems[0].case if problems else None, seed=seed, seconds=seconds)

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"

    def noted(self, note: str) -> Report:
        """The same report with a closing line."""
        return replace(self, note=note)

    def as_dict(self) -> dict[str, Any]:
        """The exercise's entry in the grader's JSON."""
        return {"id": self.exercise_id, "outcome": self.outcome, "points": self.points, "max_points": self.max_points,
                "message": self.message, "mistake": self.mistake, "seconds": round(self.seconds, 3)}

    def title(self) -> str:
        return f"{self.exercise_id}: {_MARKS[self.outcome]} · {self.points:g} of {self.max_points:g} points"

    def __str__(self) -> str:
        lines = [self.title(), *("  " + line for line in self.message.splitlines())]
        if self.note:
            lines.append("  " + self.note)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        border, background = _COLOURS[self.outcome]
        note = f'<div style="margin-top:6px">{html.escape(self.note)}</div>' if self.note else ""
        return (
            f'<div role="status" style="border-left:6px solid {border};background:{background};color:#111;'
            f'padding:8px 12px;margin:4px 0;max-width:60em">'
            f'<strong>{html.escape(self.title())}</strong>'
            f'<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;margin:6px 0 0;'
            f'background:transparent;color:#111;font-size:90%">'
            f'{_hanging_lines(self.message)}</pre>{note}</div>')


def _hanging_lines(message: str) -> str:
    """HTML in which a long line goes on under its text, right of the eight characters of its label."""
    lines = (f'<span style="display:block;min-height:1em;padding-left:8ch;text-indent:-8ch">{html.escape(line)}</span>'
             for line in message.splitlines())
    return "".join(lines)


def _message(exercise: Exercise, outcome: Outcome, passed: int, problems: Sequence[Problem],
             mistake: Mistake | None) -> str:
    if outcome == "not_attempted":
        return f"Nothing here yet. {exercise.summary}"
    if outcome == "passed":
        return f"All {passed} cases pass."
    first, rest = problems[0], problems[1:]
    lines = [first.headline]
    if first.case:
        lines += [f"case    {first.case}", f"        {first.about}"]
    lines += first.details
    if mistake is not None:
        lines.append(f"likely  This is what you get when {mistake.sentence} ({mistake.name}).")
    others = list(dict.fromkeys(p.case for p in rest if p.case and p.case != first.case))
    if others:
        lines.append("also    " + "; ".join(others[:6]) + (f" and {len(others) - 6} more" if len(others) > 6 else ""))
    if first.kind in ("xray", "speed"):
        lines += [f"{p.headline}" for p in rest]
    if passed:
        lines.append(f"passed  {passed} other case{'s' if passed > 1 else ''}")
    return "\n".join(line.rstrip() for line in lines if line.strip())
