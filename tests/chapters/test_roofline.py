"""Chapter 01: references against torch's own FLOP counter, facts that the lesson states, other right answers."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from efflab import course
from efflab.chapters.roofline import cases, figures, questions
from efflab.chapters.roofline.chips import CHIPS, chip
from efflab.chapters.roofline.drive import FakeDevice, order_of_events
from efflab.chapters.roofline.measure import MeasuredMachine, Stopwatch, caches, one_core
from efflab.chapters.roofline.measured import H200, H200_OPENING
from efflab.chapters.roofline.operations import six_operations, time_operation
from efflab.checking import Mistake, check_function
from solutions import roofline as solution

EXERCISES = {e.name: e for e in course.exercises("roofline")}
MACHINE = MeasuredMachine(name="a machine", peaks={"float32": 1e11, "bfloat16": 2e11}, bandwidth=2e10, launch_us=3.0,
                          curve=((2**13, 5e9), (2**20, 8e10), (2**27, 2e10)), caches=(("L2", 2**20),))


def passes(name: str, function: object) -> None:
    report = check_function(EXERCISES[name], function, seed=7)  # type: ignore[arg-type]
    assert report.outcome == "passed", str(report)


@pytest.mark.parametrize(("M", "N", "K"), [(1, 7, 5), (12, 1, 9), (31, 17, 1), (64, 48, 33)])
def test_matmul_counts_agree_with_torch(M: int, N: int, K: int) -> None:
    a, b = torch.randn(M, K), torch.randn(K, N)
    with FlopCounterMode(display=False) as counter:
        c = a @ b
    expected = counter.get_total_flops(), a.nbytes + b.nbytes + c.nbytes
    assert cases.count_matmul_reference(M, N, K, 4) == expected
    assert solution.count_matmul(M, N, K, 4) == expected


@pytest.mark.parametrize(("B", "Hq", "Hkv", "Nq", "Nk", "D"),
                         [(2, 4, 4, 8, 8, 16), (1, 6, 2, 3, 11, 8), (3, 2, 1, 9, 4, 4)])
def test_attention_counts_agree_with_torch(B: int, Hq: int, Hkv: int, Nq: int, Nk: int, D: int) -> None:
    q, k = torch.randn(B, Hq, Nq, D), torch.randn(B, Hkv, Nk, D)
    many = k.repeat_interleave(Hq // Hkv, dim=1)
    o = F.scaled_dot_product_attention(q, many, many)
    fused = sdpa_flop_count(q.shape, many.shape, many.shape)
    with FlopCounterMode(display=False) as unfused:
        s = q @ many.transpose(-1, -2)
        p = s.softmax(-1)
        assert (p @ many).shape == o.shape
    flops, outer = unfused.get_total_flops(), q.nbytes + 2 * k.nbytes + o.nbytes
    assert flops == fused
    for count in (cases.count_attention_reference, solution.count_attention):
        assert count(B, Hq, Hkv, Nq, Nk, D, 4) == (flops, outer)
        assert count(B, Hq, Hkv, Nq, Nk, D, 4, fused=False) == (flops, outer + 2 * s.nbytes + 2 * p.nbytes)


@pytest.mark.parametrize(("Nq", "Nk"), [(1, 1), (1, 9), (4, 9), (9, 4), (7, 7)])
def test_causal_pairs_one_by_one(Nq: int, Nk: int) -> None:
    pairs = sum(j <= i + Nk - Nq for i in range(Nq) for j in range(Nk))
    for count in (cases.count_attention_reference, solution.count_attention):
        assert count(2, 3, 3, Nq, Nk, 8, 2, causal=True)[0] == 4 * 8 * 2 * 3 * pairs


def test_facts_of_the_chapter() -> None:
    ridges = {"H200": 206, "H100 SXM": 295, "A100 80 GB": 153, "T4": 203}
    assert {name: round(chip(name).ridge) for name in ridges} == ridges
    assert round(chip("T4").triton_peak / chip("T4").bandwidth) == 25
    N, D = 2**17, 128
    naive, fused, decode = (flops / size for flops, size in (
        solution.count_attention(1, 8, 8, N, N, D, 2, fused=False), solution.count_attention(1, 8, 8, N, N, D, 2),
        solution.count_attention(1, 32, 8, 1, N, D, 2)))
    assert naive == pytest.approx(D / 2, rel=1e-2)
    assert fused == pytest.approx(N / 2, rel=1e-2)
    assert decode == pytest.approx(32 / 8, rel=1e-2)
    for each in CHIPS:
        assert each.source
        assert 150 <= each.ridge <= 410
    for name, factor in (("A100 80 GB", 8), ("H200", 16)):
        this = chip(name)
        assert this.register_bandwidth > 100e12
        assert 19e12 < this.shared_bandwidth < 34e12
        assert this.register_bandwidth / this.shared_bandwidth == pytest.approx(factor)
    assert round(chip("H100 SXM").sms * chip("H100 SXM").shared_kib / 1024, 1) == 29.4


def test_measured_numbers_that_prose_quotes() -> None:
    lesson = (course.root() or Path()).joinpath("notebooks/01_roofline.md").read_text(encoding="utf-8")
    assert "at 763 TFLOP/s" in lesson
    assert H200_OPENING == {2048: 763e12, 1: 3.43e12}
    assert round(100 * H200_OPENING[1] / H200_OPENING[2048], 1) == 0.4
    flops, moved = solution.count_matmul(1, 28672, 8192, 2)
    predicted = solution.predict_ms(flops, moved, H200.as_dict("bfloat16"))
    measured = flops / H200_OPENING[1] * 1e3
    assert f"measured {measured:.3f} ms, 3.43 TFLOP/s" in lesson
    assert abs(math.log2(predicted / measured)) < 1


def test_a_fake_device_keeps_time() -> None:
    device = FakeDevice(cold=[4.0, 8.0], warm=[2.0, 3.0], flush_takes=1.0, first=16.0, pending=32.0)
    device.run()
    assert device.clock() < 1e-5
    device.synchronize()
    assert device.clock() == 32.0 + 2.0 + 16.0
    device.flush()
    device.run()
    device.synchronize()
    assert device.clock() == pytest.approx(50.0 + 1.0 + 8.0, abs=1e-5)


def test_what_makes_no_difference_is_not_judged() -> None:
    def seen(text: str) -> tuple[int, list[str]]:
        names = {"r": "run", "f": "flush", "s": "synchronize", "c": "clock"}
        return order_of_events([names[letter] for letter in text])

    tidy, fussy = seen("rfscrsc"), seen("rsffsscrsscs")
    assert tidy == fussy == (1, ["flush synchronize clock run synchronize clock"])
    assert seen("sfcrsc") == (0, ["flush clock run synchronize clock"])


@pytest.mark.parametrize("mistake", [m for m in EXERCISES["scale_copy"].mistakes if m.caught_by == "output"],
                         ids=lambda m: m.name)
def test_wrong_copies_are_refused_for_their_values(mistake: Mistake) -> None:
    """They are written in PyTorch, so the operators that the exercise forbids would refuse them all."""
    exercise = dataclasses.replace(EXERCISES["scale_copy"], forbidden=None)
    report = check_function(exercise, mistake.function, seed=5, require_launch=False)
    assert report.outcome == "failed"
    if mistake.recognisable:
        assert report.mistake == mistake.name, str(report)


def test_other_right_answers_pass() -> None:
    def attainable(intensity: object, peak_flops: float, bandwidth: float) -> torch.Tensor:
        slope = torch.as_tensor(intensity, dtype=torch.float64) * bandwidth
        return torch.minimum(slope, torch.tensor(peak_flops, dtype=torch.float64))

    def median_time(fn, *, clock, synchronize, warmup=3, repeats=10, flush=None):  # type: ignore[no-untyped-def]
        def once() -> float:
            synchronize()
            if flush:
                flush()
                synchronize()
            start = clock()
            fn()
            synchronize()
            return clock() - start

        for _ in range(warmup):
            fn()
            synchronize()
        return statistics.median([once() for _ in range(repeats)])

    passes("attainable", attainable)
    passes("median_time", median_time)


def test_scale_copy_at_its_edges() -> None:
    for x in (torch.empty(0, 3), torch.tensor(2.5), torch.randn(1, 1, 1), torch.randn(2, 1, 3).expand(2, 4, 3)):
        y = solution.scale_copy(x, 2.0)
        assert y.shape == x.shape
        assert y.is_contiguous()
        assert torch.equal(y, x * 2.0)
    with pytest.raises(TypeError, match=r"float64.*\.to\(dtype\)"):
        solution.scale_copy(torch.randn(3, dtype=torch.float64), 2.0)


def test_merged_axes() -> None:
    assert solution.merged_axes(torch.empty(4, 5, 6)) == ((120,), (1,))
    assert solution.merged_axes(torch.empty(4, 5, 6).transpose(0, 2)) == ((6, 5, 4), (1, 6, 30))
    assert solution.merged_axes(torch.empty(())) == ((1,), (1,))
    assert solution.merged_axes(torch.empty(1, 33).expand(5, 33)) == ((5, 33), (0, 1))
    assert solution.merged_axes(torch.empty(4, 10)[:, ::2]) == ((20,), (2,))


def test_six_operations_run_and_are_counted() -> None:
    six = six_operations(MACHINE, solution.count_matmul, solution.count_attention)
    assert len(six) == 6
    watch = Stopwatch(lambda fn, **_: 1e-3 if fn() is not None else 0.0)
    for operation in six:
        assert operation.flops > 0
        assert operation.bytes > 0
        assert time_operation(operation, watch) == 1.0


def test_measuring_uses_one_core_and_gives_it_back() -> None:
    before = torch.get_num_threads()
    with one_core():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    start = time.perf_counter()
    watch = Stopwatch(solution.median_time)
    x = torch.randn(2**16)
    assert 0 < watch.seconds(lambda: x + x) < 1
    assert time.perf_counter() - start < 30
    assert all(size > 0 for _, size in caches())


def test_every_picture_has_words(capsys: pytest.CaptureFixture[str]) -> None:
    figures.first_roof(solution.attainable, solution.bound)
    figures.explore(solution.attainable, solution.bound, solution.count_matmul, solution.count_attention, MACHINE)
    figures.timeline(solution.median_time)
    figures.staircase(MACHINE, H200)
    figures.hierarchy()
    pictures = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[Picture]")]
    assert len(pictures) == 5
    assert "4,096 rows, 1,365 FLOP/byte, 989 TFLOP/s, compute" in pictures[0]
    assert "attention, naive at 62.8 FLOP per byte" in pictures[1]
    assert "0.812 ms" in pictures[2]


def test_tables_follow_the_learners_functions(capsys: pytest.CaptureFixture[str]) -> None:
    figures.chip_table(solution.bound, solution.count_attention)
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "memory" in line]
    assert all(row[-3:] == ["memory", "compute", "memory"] for row in rows)
    assert len(rows) == len(CHIPS)
    figures.data_sheets()
    assert "data sheet" in capsys.readouterr().out


def test_questions(capsys: pytest.CaptureFixture[str]) -> None:
    questions.one_row(solution.count_matmul)
    questions.fused_attention(solution.count_attention)
    questions.cache_over_memory(MACHINE)
    questions.quiz()
    out = capsys.readouterr().out
    assert "Answer: 1 FLOP/byte" in out
    assert "Answer: 2,048 FLOP/byte" in out
    assert "Answer: 4 ×" in out
    rights = re.findall(r"^  ([A-D])  right:", out, re.M)
    assert len(rights) == 5
    assert len(set(rights)) > 1


def test_a_dot_changes_sides_as_the_lesson_says() -> None:
    flops, moved = solution.count_matmul(200, 4096, 4096, 2)
    sides = [solution.bound(flops / moved, c.peak, c.bandwidth) for c in (chip("A100 80 GB"), chip("H200"))]
    assert sides == ["compute", "memory"]


def test_scoreboard_counts_hits(capsys: pytest.CaptureFixture[str]) -> None:
    six = six_operations(MACHINE, solution.count_matmul, solution.count_attention)[:1]
    figures.scoreboard(lambda flops, size, machine: 1.5, lambda fn, **_: 1e-3, MACHINE, six)
    figures.scoreboard(lambda flops, size, machine: 2.5, lambda fn, **_: 1e-3, MACHINE, six)
    out = capsys.readouterr().out
    assert "1 of 1 predictions within a factor of two" in out
    assert "0 of 1 predictions within a factor of two" in out


def test_the_lesson_holds_every_exercise_in_order() -> None:
    notebook = json.loads((course.root() or Path()).joinpath("notebooks/01_roofline.ipynb").read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    checked = [m.group(1) for source in sources if (m := re.fullmatch(r"(\w+) = check\(\1\)", source.strip()))]
    assert checked == list(EXERCISES)
    assert sum(e.points for e in EXERCISES.values()) == 30
