"""The estimates and the quiz of chapter 03, kept out of the lesson so that a cell does not show its own answer."""

from __future__ import annotations

from dataclasses import dataclass

from efflab import show


@dataclass(frozen=True)
class Estimate:
    question: str
    unit: str
    answer: float
    explain: str


@dataclass(frozen=True)
class Question:
    question: str
    choices: tuple[str, ...]
    answer: int
    why: tuple[str, ...]


ESTIMATES = {
    "largest_exp": Estimate(
        "float16 ends at 65,504. What is the largest x for which exp(x) still fits?", "", 11.09,
        "log(65,504) is 11.09. float32 ends at 88.7, and logits of that size do occur."),
    "five_operators": Estimate(
        "max, subtract, exp, sum, divide, as five operators: how many times the size of x do they move?",
        "times the size of x", 8.0,
        "max reads 1; subtract, exp and divide read 1 and write 1 each; sum reads 1. 1 + 2 + 2 + 1 + 2 = 8."),
    "tree": Estimate(
        "64 pieces, each merged by its own processor. A chain takes 63 steps. How many does a balanced tree take?",
        "steps", 6.0, "Each step halves the number of pieces, and 64 is 2 to the power of 6."),
    "ceiling": Estimate(
        "A copy moves 2 times the size of x. A softmax that moves 3: what part of a copy's speed is its ceiling?",
        "%", 200 / 3, "2 of the 3 transfers are useful: two thirds. No tuning helps against it."),
    "register_file": Estimate(
        "How much of a 256 KiB register file does a row of 65,536 numbers in float32 take?", "%", 100.0,
        "65,536 times 4 bytes is 256 KiB: nothing is left for addresses, so some of it has to live elsewhere."),
}

QUIZ = (
    Question("Your running pair is (m, l) = (2, 10). The next block holds the single number 4. What is l afterwards?",
             ("11", "10 · exp(2) + 1", "10 · exp(−2) + 1", "10 + exp(2)"), 2,
             ("That adds a term relative to 4 to terms relative to 2.",
              "The factor is turned round: the old terms must shrink when the maximum rises.",
              "The old terms shrink by exp(2 − 4); the new number is the maximum and adds exp(0) = 1.",
              "That would be right relative to m = 2; it overflows as soon as a number is 89 above the first.")),
    Question("A causal mask makes the first two blocks of a row all −inf. What does the unguarded update do?",
             ("It works: exp(−inf) is 0.", "l becomes NaN in the first block and stays NaN.", "m becomes NaN.",
              "It is slow, but right."), 1,
             ("exp(−inf) is 0, but −inf − (−inf) is NaN before exp sees it.",
              "exp(−inf − (−inf)) is NaN, and NaN times any factor stays NaN, even when finite numbers follow.",
              "The maximum of −inf and −inf is −inf; the maximum is not the problem.",
              "Speed has nothing to do with it: the row is lost.")),
    Question("Why does the kernel's masked load take `other=-inf`, and not `other=0`?",
             ("0 would be slower.", "The padding would count: its exp is not 0, and it can even win the maximum.",
              "`tl.load` allows nothing else.", "0 would overflow."), 1,
             ("Both are constants in a register.",
              "With 0 each padded place adds exp(0 − m) to l. In a row of negative numbers 0 also becomes the maximum.",
              "It takes any value; for a plain sum 0 would be the right one.",
              "Nothing overflows; the result is a little too small, which is harder to notice.")),
    Question("A softmax kernel runs at 60% of copy speed. Which change is most likely to help?",
             ("A cheaper exp.", "Reading x once instead of twice.", "More programs for each row.",
              "float16 arithmetic."), 1,
             ("Arithmetic has time to spare while bytes travel.",
              "60% is close to two thirds, which is what three transfers in place of two allow.",
              "Then the pieces need a merge, and the bytes stay the same.",
              "The bytes stay the same, and the sum loses digits.")),
    Question("Two GPUs hold half of the keys each. What must they exchange, for each query, to finish attention?",
             ("All keys and values.", "All scores.", "One output o and one number lse.", "Only the maximum."), 2,
             ("That works and moves far more than is needed.", "There are as many scores as keys.",
              "`merge_outputs` needs nothing else, however many keys there were.",
              "The maximum tells how to scale a sum, not how large it is.")),
)


def predict(name: str) -> None:
    """Ask for one of ESTIMATES."""
    e = ESTIMATES[name]
    show.predict(e.question, e.unit, e.answer, e.explain)


def quiz(number: int) -> None:
    """Ask question `number` of QUIZ, from 1."""
    q = QUIZ[number - 1]
    show.quiz(q.question, q.choices, q.answer, q.why)
