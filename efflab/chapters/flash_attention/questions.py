"""The estimates and the quiz of chapter 04, kept out of the lesson so that a cell does not show its own answer."""

from __future__ import annotations

from collections.abc import Callable

from efflab import show

# name: (question, unit, the answer or None where the lesson computes it, why)
ESTIMATES: dict[str, tuple[str, str, float | None, str]] = {
    "scores": (
        "N doubles. By which factor do the scores grow?",
        "×", 4,
        "Nq and Nk both double. q, k, v and o only double: at some N the scores win."),
    "fa2_traffic": (
        "D = 128, tiles of 128 × 128, N = 131,072. How many times less than naive does FA2 move?",
        "×", None,
        "naive is 4N² and FA2 2N²D / block_q, nearly: their ratio is 2 · block_q / D."),
    "longest_first": (
        "2 heads of 16 causal programs, 1 to 16 steps long, run on 8 processors. Shortest first ends after 41 "
        "steps. When does longest first end?",
        "steps", None,
        "All steps together are 272, so 34 is the best that 8 processors can do. Short programs fill the end."),
}

# (question, choices, index of the right one, why for each)
QUIZ: tuple[tuple[str, list[str], int, list[str]], ...] = (
    (
        "In FlashAttention, what falls from O(N²) to O(N)?",
        [
            "HBM reads and writes",
            "FLOPs",
            "Extra memory",
            "All three",
        ],
        2,
        [
            "Traffic is Θ(N²D²/M), still quadratic; you counted it.",
            "Every score is still computed.",
            "S and P are never stored; lse is one number a row.",
            "Only the extra memory does.",
        ],
    ),
    (
        "After a tile the maximum of a row grew from 2 to 5. What must happen to `l` and `acc`?",
        [
            "Both times exp(-3)",
            "Both times exp(3)",
            "Only `l` times exp(-3)",
            "Nothing: the division at the end mends it",
        ],
        0,
        [
            "Both are sums of exp(s − m), and m grew by 3.",
            "The inverse: old terms must shrink.",
            "Then `acc / l` mixes two scales.",
            "It cannot: old and new terms were taken off different maxima.",
        ],
    ),
    (
        "Nq = 2, Nk = 5, causal. Which keys does query 0 see?",
        [
            "Key 0",
            "Keys 0 to 3",
            "Keys 0 to 4",
            "None",
        ],
        1,
        [
            "That is the top-left mask of `is_causal=True`.",
            "j ≤ i + Nk − Nq = 3.",
            "That is the last query.",
            "Only with Nq > Nk can a row see nothing.",
        ],
    ),
    (
        "Why does FA2 need less traffic than FA1 with the same tiles?",
        [
            "It reads k and v once",
            "It reads q once and keeps o, m and l in registers",
            "It uses fp16 for o",
            "It skips masked tiles",
        ],
        1,
        [
            "FA2 reads k and v for each tile of queries; FA1 reads them once.",
            "FA1 reads q, and moves o, m, l both ways, for each tile of keys.",
            "Both store o in the inputs' dtype.",
            "Either can; here nothing is masked.",
        ],
    ),
    (
        "A kernel masks with −1e6 in place of −inf. When does it show?",
        [
            "Never",
            "In rows that see no key",
            "When Nk is not a multiple of the tile",
            "In fp16 only",
        ],
        1,
        [
            "It does show, in one kind of row.",
            "All scores are equal there, so the row becomes the mean of v.",
            "Padding beside visible keys gets weight exp(−1e6) = 0, as it should.",
            "float32 scores behave the same.",
        ],
    ),
    (
        "`lse` is 1.44 times too large everywhere. What was forgotten?",
        [
            "The scale",
            "The running maximum",
            "To multiply by ln 2 after exp2",
            "To rescale `l`",
        ],
        2,
        [
            "Then the factor would differ from row to row.",
            "Then a different amount would be missing in each row.",
            "log₂ is 1 / ln 2 = 1.4427 times the natural logarithm.",
            "That error depends on the order of the scores.",
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
