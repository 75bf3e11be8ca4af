"""What holds for every chapter: the solution passes, a stub is not attempted, every mistake is refused by its name."""

from __future__ import annotations

import pytest

from efflab import course
from efflab.checking import check_function
from efflab.checking.exercise import Exercise, Mistake

EXERCISES = [e for c in course.ready_chapters() for e in course.exercises(c.slug)]
MISTAKES = [(e, m) for e in EXERCISES for m in e.mistakes]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_the_solution_passes(exercise: Exercise) -> None:
    for seed in (0, 1):
        report = check_function(exercise, course.solution_of(exercise), seed=seed)
        assert report.outcome == "passed", str(report)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_a_stub_is_not_attempted(exercise: Exercise) -> None:
    def stub(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{exercise.name}: your code goes here")

    report = check_function(exercise, stub, seed=0)
    assert report.outcome == "not_attempted"
    assert report.points == 0


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES, ids=[f"{e.id}-{m.name}" for e, m in MISTAKES])
def test_every_mistake_is_refused(exercise: Exercise, mistake: Mistake) -> None:
    """For its own reason: a kernel exercise does not refuse these for want of a kernel launch."""
    report = check_function(exercise, mistake.function, seed=2, require_launch=False)
    expected = "error" if mistake.caught_by == "error" else "failed"
    assert report.outcome == expected, f"{mistake.name} was not refused: {report}"
    assert report.points == 0
    if mistake.caught_by == "output" and mistake.recognisable:
        assert report.mistake == mistake.name, str(report)


def test_function_names_are_unique_across_the_course() -> None:
    names = [e.name for e in EXERCISES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_an_exercise_is_completely_described(exercise: Exercise) -> None:
    assert exercise.summary.endswith(".")
    assert 2 <= len(exercise.hints) <= 4
    assert len({m.name for m in exercise.mistakes}) == len(exercise.mistakes) >= 2
    assert exercise.points > 0
    assert exercise.minutes > 0
