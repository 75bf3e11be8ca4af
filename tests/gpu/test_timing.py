"""Timing with a fake clock: what is inside the span, what is outside, and in which order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from fake_watch import FakeWatch

from efflab.gpu import timing
from efflab.gpu.timing import Side, median_ms, race


def timed(watch: FakeWatch, costs: Sequence[float]):
    """A function whose successive calls take these times."""
    left = list(costs)

    def function(x):
        watch.events.append(f"call {x}")
        watch.now += left.pop(0)
    return function


def test_median_of_the_repeats_without_warmup_and_flush():
    watch = FakeWatch()
    result = median_ms(timed(watch, [500, 500, 1, 9, 2]), lambda: {"x": 0}, warmup=2, repeats=3, watch=watch)
    assert result.ms == 2
    assert result.times_ms == (1, 9, 2)
    assert watch.events[:3] == ["call 0", "call 0", "synchronize"]
    assert watch.events[3:7] == ["flush", "start", "call 0", "stop"]


def test_inputs_take_turns():
    watch = FakeWatch()
    numbers = iter(range(10))
    median_ms(timed(watch, [1] * 9), lambda: [next(numbers)], warmup=3, repeats=6, sets=3, flush=False, watch=watch)
    calls = [e for e in watch.events if e.startswith("call")]
    assert calls == ["call 0", "call 1", "call 2"] * 3
    assert "flush" not in watch.events


def test_a_race_takes_turns_and_nobody_always_goes_first():
    watch = FakeWatch()
    sides = {"a": Side(function=timed(watch, [7] + [1] * 4), sets=[["a"]]),
             "b": Side(function=timed(watch, [7] + [2] * 4), sets=[["b"]])}
    times = race(sides, warmup=1, repeats=4, watch=watch)
    calls = [e[-1] for e in watch.events if e.startswith("call")]
    assert "".join(calls) == "ab" + "ab" + "ba" + "ab" + "ba"
    assert (times["a"].ms, times["b"].ms) == (1, 2)


def test_no_warmup_or_no_repeat_is_refused():
    with pytest.raises(ValueError, match="at least one warm-up"):
        median_ms(lambda: None, list, warmup=0, watch=FakeWatch())


def test_spread():
    assert timing._timing([1.0] * 8, 1).spread == 0
    assert timing._timing([1.0, 2.0, 3.0, 4.0], 1).spread == pytest.approx((3.75 - 1.25) / 2.5)
    assert timing._timing([5.0], 1).ms == 5.0


def test_real_clock_on_the_cpu_orders_small_and_large_work():
    def make(n: int):
        return lambda: [torch.randn(n, n)]
    small = median_ms(lambda x: x @ x, make(16), warmup=1, repeats=3, sets=2)
    large = median_ms(lambda x: x @ x, make(512), warmup=1, repeats=3, sets=2)
    assert 0 < small.ms < large.ms
    assert "ms" in str(large)
