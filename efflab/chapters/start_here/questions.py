"""The estimates and the quiz of the start page, kept out of the lesson so that a cell does not show its own answer."""

from __future__ import annotations

from collections.abc import Callable

from efflab import show

# name: (question, unit, the answer or None where the lesson computes it, why)
ESTIMATES: dict[str, tuple[str, str, float | None, str]] = {
    "rms": (
        "What is the root mean square of the numbers 3, −3, 3, −3?",
        "", 3.0,
        "Each square is 9, their mean is 9, and the root of 9 is 3. The signs do not matter."),
}

# (question, choices, index of the right one, why for each)
QUIZ: tuple[tuple[str, list[str], int, list[str]], ...] = (
    (
        "You fill in an exercise, the check fails, and you run the rest of the notebook. What happens?",
        [
            "The next cells fail.",
            "The next cells use the course's function.",
            "The next cells use your wrong function.",
        ],
        1,
        [
            "A broken step does not end the evening.",
            "The check returns the course's function in that case, and says so.",
            "A wrong function would make every later picture and check wrong too.",
        ],
    ),
    (
        "A report says: allowed error 4.8e-07, yours 3.1e-04, dtype float32. What is likely?",
        [
            "The check is too strict.",
            "Something was computed at lower precision.",
            "The random numbers were unlucky.",
        ],
        1,
        [
            "The limit is twice the error of PyTorch's own float32 computation, so it can be met.",
            "3e-04 is typical of TF32 or of a detour through float16 or bfloat16.",
            "The same limit is met by right answers for every seed; the tests of the course try many.",
        ],
    ),
)


def predict(name: str, answer: Callable[[], float] | None = None) -> None:
    """Ask for an estimate. answer: finds the truth where it is not known beforehand."""
    question, unit, known, explain = ESTIMATES[name]
    truth = answer if known is None else known
    if truth is None:
        raise ValueError(f"the estimate {name!r} needs a function that finds its answer")
    show.predict(question, unit, truth, explain)


def quiz(number: int) -> None:
    """Ask question `number`, from 1."""
    show.quiz(*QUIZ[number - 1])
