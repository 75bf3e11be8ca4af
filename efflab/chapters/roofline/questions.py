"""What the lesson asks: estimates, and the quiz at the end. It stands here so that no cell shows an answer."""

from __future__ import annotations

from efflab import show
from efflab.chapters.roofline.measure import MeasuredMachine
from efflab.chapters.roofline.operations import Count


def one_row(count_matmul: Count) -> None:
    """The intensity of a single row times a weight."""
    flops, moved = count_matmul(1, 4096, 4096, 2)
    show.predict("One row times a 4,096 × 4,096 weight, 2 bytes a number: how many FLOPs for each byte?", "FLOP/byte",
                 flops / moved,
                 "Nearly all the traffic is the weight. Each of its numbers is 2 bytes and takes part in 2 FLOPs.")


def fused_attention(count_attention: Count) -> None:
    """The intensity of fused attention, from that of naive attention."""
    flops, moved = count_attention(1, 1, 1, 4096, 4096, 128, 2)
    show.predict("Naive (unfused) attention has about 62 FLOP/byte at this size. How many has the fused one?",
                 "FLOP/byte", flops / moved,
                 "For large N naive attention goes to D / 2, whatever N is; fused attention grows as N / 2.")


def cache_over_memory(mine: MeasuredMachine) -> None:
    """How far apart the staircase's highest and last steps are."""
    show.predict("How many times faster is the fastest copy than the largest one, on this machine?", "×",
                 max(rate for _, rate in mine.curve) / mine.bandwidth,
                 "The fastest one still fits in a cache. It says nothing about memory.")


QUIZ = (      # question, choices, which is right, why for each
    ("A kernel has 40 FLOP/byte on an H200 (ridge at 206). You halve its FLOPs and leave its bytes. What happens?",
     ["It takes half as long", "It becomes compute-bound", "It takes about as long as before"], 2,
     ["Only if arithmetic were the limit. Left of the ridge the multipliers wait already.",
      "Fewer FLOPs for the same bytes lowers the intensity: further to the left.",
      "The bytes set the time, and they are the same. Intensity fell to 20."]),
    ("Decoding with a batch of 64 in place of 1: which part of the model gains intensity?",
     ["Attention over each sequence's own keys", "The products with the weights", "Both", "Neither"], 1,
     ["Each sequence has its own keys and values: 64 times the work, and 64 times the bytes.",
      "All 64 rows share one read of the weights, so FLOPs grow and bytes hardly do.",
      "Attention's bytes grow with the batch, for the keys are not shared between sequences.",
      "The weights are read once for the whole batch."]),
    ("A colleague's copy kernel reaches 7 TB/s on an H200, whose memory has 4.8 TB/s. What is likely?",
     ["The buffer fits in the L2 cache, or nobody waited", "The kernel is better than the data sheet",
      "Bandwidth counts only the bytes read"], 0,
     ["Both give such numbers. Use a buffer several times the cache, and synchronise.",
      "No kernel beats the wires. A number above the physical limit is a mistake in measuring.",
      "It counts bytes read and written, and 4.8 TB/s holds for their sum."]),
    ("Why is the flush followed by a wait, before the first reading?",
     ["To let the GPU cool down", "Because synchronize empties the cache",
      "Because the flush is queued too and would run inside the timed span"], 2,
     ["Temperature matters over seconds, not here.", "synchronize only waits. It moves no data.",
      "flush() returns at once. Without waiting, the clock starts while the flush still runs."]),
    ("Fused attention, no mask, Hq = Hkv, Nq = Nk = N, 16 bits. What does its intensity come to?",
     ["N / 2", "D / 2", "Hq / Hkv"], 0,
     ["4·D·N² FLOPs over 2 bytes × 4·N·D numbers. It grows with the prompt.",
      "That is naive attention for large N, where four passes over N × N dominate.",
      "That is decode: one query for each head."]),
)


def quiz() -> None:
    """Five questions."""
    for question, choices, answer, why in QUIZ:
        show.quiz(question, choices, answer, why)
