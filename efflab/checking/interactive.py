"""What a learner calls in a notebook: check, hint, solution."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from efflab.checking.exercise import Case, Exercise
from efflab.checking.judge import examine
from efflab.checking.observe import Observation, observe, one_thread
from efflab.checking.report import Problem, Report

if TYPE_CHECKING:
    from efflab.gpu.xray import Pending

_hints_shown: dict[str, int] = {}
_current_chapter: str | None = None


def set_chapter(slug: str) -> None:
    """Look a function's name up in this chapter first."""
    global _current_chapter
    _current_chapter = slug


def check(function: Callable[..., Any], *, seed: int | None = None) -> Callable[..., Any]:
    """Check the learner's function and show the report.

    Returns the function to go on with: the learner's own if it passes, the course's otherwise.
    seed: repeat the random cases of an earlier report.
    """
    from efflab import course

    exercise = course.find_exercise(_name(function), prefer=_current_chapter)
    function = _learners(exercise, function)
    report = check_function(exercise, function, seed=seed)
    if report.passed:
        report = report.noted(f"{exercise.name} is yours from here on. (seed {report.seed})")
    else:
        again = f" (seed {report.seed})" if report.outcome in ("failed", "error") else ""
        report = report.noted(f"From here on the lesson uses the course's {exercise.name}. "
                              f"hint({exercise.name}) gives a hint.{again}")
    _show(report)
    _record(report)
    if report.passed:
        return function
    _replaced[exercise.id] = function
    return course.solution_of(exercise)


_replaced: dict[str, Callable[..., Any]] = {}       # exercise id -> the learner's function that the course's replaced


def _learners(exercise: Exercise, function: Callable[..., Any]) -> Callable[..., Any]:
    """When only the check cell runs again, the name already means the course's function: check the learner's."""
    if getattr(function, "__module__", "") != f"solutions.{exercise.chapter}":
        return function

    def nothing_written(*args: Any, **kwargs: Any) -> Any: ...

    return _replaced.get(exercise.id, nothing_written)


@one_thread()
def check_function(exercise: Exercise, function: Callable[..., Any], *, seed: int | None = None,
                   require_launch: bool = True) -> Report:
    """Check a function in this process and return the report, showing and recording nothing."""
    import torch

    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    reason = _cannot_check(exercise)
    if reason is not None:
        return Report.of(exercise, "skipped", seed=seed, seconds=0.0, reason=reason)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def run_case(case: Case) -> Observation:
        operators = exercise.forbidden.operators if exercise.forbidden else ()
        return observe(function, case.inputs, drive=case.drive, forbidden=operators)

    if exercise.kernel is None or not require_launch:
        return examine(exercise, run_case, seed=seed, device=device, require_launch=require_launch)

    from efflab.gpu import xray

    looking = xray.start(exercise, function)            # beside the cases
    try:
        report = examine(exercise, run_case, seed=seed, device=device,
                         further=lambda: further_judges(exercise, function, seed, looking))
    finally:
        looking.cancel()
    if report.passed and looking.not_run:
        report = replace(report, message=f"{report.message}\nx-ray not run: {looking.not_run}")
    return report


def further_judges(exercise: Exercise, function: Callable[..., Any], seed: int, looking: Pending) -> list[Problem]:
    """The compiler's and the clock's problems with a kernel whose values are right."""
    import torch

    if exercise.kernel is None:
        return []
    problems = [Problem("xray", "", "", text) for text in looking.problems()]
    if exercise.kernel.bars and torch.cuda.is_available() and not problems:
        from efflab.gpu import bars

        for bar in exercise.kernel.bars:
            result = bars.measure(bar, function, seed=seed)
            if result.judged and not result.passed:
                problems.append(Problem("speed", "", "", result.sentence))
    return problems


def _cannot_check(exercise: Exercise) -> str | None:
    """Why this exercise cannot be checked here, or None."""
    if exercise.kernel is None:
        return None
    from efflab.gpu.machine import interpreter_problem

    return interpreter_problem()


def hint(function: Callable[..., Any]) -> None:
    """Show one more hint for this exercise each time."""
    from efflab import course

    exercise = course.find_exercise(_name(function), prefer=_current_chapter)
    shown = min(_hints_shown.get(exercise.id, 0) + 1, len(exercise.hints))
    _hints_shown[exercise.id] = shown
    for n, text in enumerate(exercise.hints[:shown], 1):
        print(f"Hint {n} of {len(exercise.hints)}: {text}")
    if shown == len(exercise.hints):
        print(f"That was the last one. solution({exercise.name}) shows the course's answer.")


def solution(function: Callable[..., Any], *, sure: bool | None = None) -> None:
    """Show the course's answer, after asking. sure=True answers the question beforehand."""
    from efflab import course
    from efflab.authoring import regions

    exercise = course.find_exercise(_name(function), prefer=_current_chapter)
    if sure is None:
        try:
            answer = input(f"Show the course's {exercise.name}? It can teach you this exercise only once. [y/N] ")
        except (EOFError, RuntimeError, NotImplementedError):      # no keyboard here: a batch run, or "run all"
            print(f"Nothing shown. solution({exercise.name}, sure=True) shows it without asking.")
            return
        sure = answer.strip().lower() in ("y", "yes")
    if not sure:
        print("Nothing shown.")
        return
    print(regions.answer(exercise.chapter, exercise.name))


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None) or getattr(getattr(function, "fn", None), "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"check, hint and solution take the function that you wrote, such as check(online_softmax); "
                        f"got {type(function).__name__}.")
    return name


def _show(report: Report) -> None:
    """Rich where a front end shows HTML, plain text otherwise."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if shell is not None and getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        display({"text/plain": str(report), "text/html": report._repr_html_()}, raw=True)
    else:
        print(report)


def _record(report: Report) -> None:
    from efflab.checking import progress

    try:
        progress.record(report)
    except progress.ProgressError as error:
        print(f"efflab: {error}")
