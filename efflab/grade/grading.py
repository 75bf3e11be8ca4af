"""One submission to one result: for each exercise a fresh process answers the cases and the judge judges."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from efflab import course
from efflab.checking.exercise import Case, Exercise
from efflab.checking.judge import examine
from efflab.checking.observe import Observation, Raised
from efflab.checking.report import Problem, Report
from efflab.grade.chapters import exercises_of, read_submission
from efflab.grade.client import Attempt, Stopped, Warm, WorkerFailed
from efflab.grade.extract import Broken
from efflab.grade.isolate import Walls, clean_environment, command, hidden_solutions
from efflab.grade.locks import one_at_a_time
from efflab.grade.submission import Code, Submission, Unreadable, shown


@dataclass(frozen=True, kw_only=True)
class Settings:
    """seed: of every case, the same for all submissions. chapter, exercise: grade only these. show: let the
    submission's own output through to standard error. scratch: where folders for the processes are made."""

    walls: Walls
    seed: int
    chapter: str | None = None
    exercise: str | None = None
    show: bool = False
    scratch: Path | None = None

    @property
    def device(self) -> torch.device:
        return torch.device("cuda" if self.walls.gpu else "cpu")


@dataclass
class Result:
    """What one submission earned. problem: why it could not be graded, or only in part."""

    submission: str
    reports: list[Report] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problem: str | None = None

    @property
    def score(self) -> float:
        return sum(r.points for r in self.reports)

    @property
    def max_score(self) -> float:
        return sum(r.max_points for r in self.reports)

    @property
    def passed(self) -> bool:
        return self.problem is None and bool(self.reports) and all(r.passed for r in self.reports)

    def as_dict(self) -> dict[str, Any]:
        """The handbook's JSON object; "problem" is there only when there is one."""
        told: dict[str, Any] = {"submission": self.submission, "score": self.score, "max_score": self.max_score,
                                "exercises": [r.as_dict() for r in self.reports]}
        return told | ({"problem": self.problem} if self.problem else {})


class Grader:
    """Grades submissions one after another; keeps one warm worker for the chapter at hand."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._warm: Warm | None = None
        self._never_loads: Raised | None = None       # why the submission at hand cannot be loaded in time

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._drop()

    def grade(self, submission: Submission) -> Result:
        """Never raises for what a submission is or does."""
        result, self._never_loads = Result(submission.name), None
        try:
            code, slugs = read_submission(submission, self._settings.chapter)
            result.notes += code.notes
            exercises = exercises_of(slugs, self._settings.exercise)
        except (Unreadable, course.UnknownChapter, course.UnknownExercise) as problem:
            result.problem = str(problem)
            result.reports += self._nothing_read(submission, result.problem)
            return result
        result.reports += [self._exercise(e, code) for e in exercises]
        return result

    def _nothing_read(self, submission: Submission, problem: str) -> list[Report]:
        """Where the chapter is known from the file's name: its exercises, each an error, so the score has a sum."""
        known: list[Exercise] = []
        with suppress(course.UnknownChapter, course.UnknownExercise):
            slugs = {course.chapter(self._settings.chapter or f.name).slug for f in submission.files}
            known = exercises_of(sorted(slugs), self._settings.exercise)
        return [Report.of(e, "error", seed=self._settings.seed, seconds=0.0, reason=problem) for e in known]

    def _exercise(self, exercise: Exercise, code: Code) -> Report:
        start = time.perf_counter()
        names = code.names()
        broken = next((b for b in code.broken if exercise.name in b.names), None)

        def settled(outcome: Any, reason: str) -> Report:
            seconds = time.perf_counter() - start
            return Report.of(exercise, outcome, seed=self._settings.seed, seconds=seconds, reason=reason)

        if (reason := _cannot_grade(exercise)) is not None:
            return settled("skipped", reason)
        if exercise.name not in names:
            return settled("error", str(broken)) if broken else settled("not_attempted", _absent(exercise, names))
        report = self._attempt(exercise, code)
        return _with_context(report, exercise, code, broken)

    def _attempt(self, exercise: Exercise, code: Code, tries: int = 2) -> Report:
        """Examine in a fresh child; when the warm worker itself was harmed, once more with a new one."""
        started = time.perf_counter()
        try:
            attempt = Attempt(self._warm_for(exercise.chapter), self._settings.device)
            try:
                return self._examined(exercise, code, attempt)
            finally:
                attempt.close()
        except WorkerFailed as failure:
            self._drop()
            if tries > 1:
                return self._attempt(exercise, code, tries - 1)
            return Report.of(exercise, "error", seed=self._settings.seed, seconds=time.perf_counter() - started,
                             reason=f"The exercise could not be graded: {failure}.")

    def _examined(self, exercise: Exercise, code: Code, attempt: Attempt) -> Report:
        operators = exercise.forbidden.operators if exercise.forbidden else ()
        failure, notes = (self._never_loads, []) if self._never_loads else _loaded(attempt, exercise, code)
        if failure is not None and failure.kind == "Timeout":
            self._never_loads = failure               # the other exercises need not wait as long again

        def run_case(case: Case) -> Observation:
            if failure is not None:
                return Observation(error=failure)
            return attempt.observe(case.inputs, case.drive, operators)

        not_run: list[str] = []
        report = examine(exercise, run_case, seed=self._settings.seed, device=self._settings.device,
                         further=lambda: self._compiled(exercise, code, not_run))
        if not_run:
            report = replace(report, message="\n".join([report.message, *not_run]))
        if notes and not report.passed and report.outcome != "not_attempted":
            report = replace(report, message="\n".join([report.message, *notes]))
        return report

    def _compiled(self, exercise: Exercise, code: Code, not_run: list[str]) -> list[Problem]:
        """The compiler's problems with a kernel whose values are right, found behind the same walls.

        not_run: gets a line when nothing can be compiled here.
        """
        if exercise.kernel is None or not exercise.kernel.xrays:
            return []
        from efflab.gpu import xray

        reason = xray.available()
        if reason is not None:
            not_run.append(f"x-ray not run: {reason}")
            return []
        hidden = hidden_solutions(exercise.chapter)
        environment = {k: v for k, v in clean_environment(gpu=False).items() if k != "TRITON_INTERPRET"}

        def wrap(inner: list[str], folder: Path) -> list[str]:
            return command(self._settings.walls, inner, hidden=hidden, scratch=folder, writable=[folder],
                           environment=environment | {"CUDA_VISIBLE_DEVICES": ""})

        source = code.text()
        with one_at_a_time(source):
            return [Problem("xray", "", "", shown(text)) for text in xray.judge(exercise, source, wrap=wrap)]

    def _warm_for(self, slug: str) -> Warm:
        hidden = tuple(hidden_solutions(slug))
        if self._warm is not None and self._warm.hidden != hidden:
            self._drop()
        if self._warm is None:
            self._warm = Warm(self._settings.walls, hidden, show=self._settings.show, folder=self._settings.scratch)
        return self._warm

    def _drop(self) -> None:
        if self._warm is not None:
            self._warm.close()
            self._warm = None


def _loaded(attempt: Attempt, exercise: Exercise, code: Code) -> tuple[Raised | None, list[str]]:
    """Load the definitions: (why the function cannot be called, or None; what failed on the way, in words)."""
    from efflab.grade.protocol import Invalid, text

    try:
        reply = attempt.load(code.as_plain(), exercise.name)
        failures = [(text(f["text"]), text(f["where"], 200), int(f["line"])) for f in reply["failures"][:20]]
        defined = reply["defined"] is True
    except Stopped as stopped:
        return replace(stopped.raised, message=f"{stopped.raised.message}, while its definitions were loaded"), []
    except (Invalid, KeyError, TypeError, ValueError):
        return Raised("InvalidAnswer", "its process did not say what it defines", ""), []
    relevant = [f for f in failures if "efflab." not in f[0]]
    notes = [f"note    {where}, line {line} failed: {said}" for said, where, line in relevant[:3]]
    if defined:
        return None, notes
    said = f"{exercise.name} could not be defined" + (f" ({failures[0][0]})" if failures else " as a function")
    return Raised("LoadError", said, ""), notes


def _cannot_grade(exercise: Exercise) -> str | None:
    """Why no answer to this exercise can be judged on this machine, or None."""
    if exercise.kernel is None:
        return None
    from efflab.gpu.machine import interpreter_problem, triton_version

    if triton_version() is None:
        return "This exercise asks for a Triton kernel, and Triton is not installed here. Install it and grade again."
    return interpreter_problem()


def _absent(exercise: Exercise, names: set[str]) -> str:
    close = get_close_matches(exercise.name, names, n=1, cutoff=0.75)
    hint = f" It defines {close[0]}; keep the name {exercise.name}." if close else ""
    return f"The submission does not define {exercise.name}.{hint}"


def _with_context(report: Report, exercise: Exercise, code: Code, broken: Broken | None) -> Report:
    """Say which definitions of this exercise were left out."""
    notes = [n for n in code.notes if n.startswith(exercise.name + " ")]
    if broken is not None:
        notes.append(f"A definition of {exercise.name} was left out: {broken}.")
    return replace(report, message="\n".join([report.message, *notes])) if notes else report


