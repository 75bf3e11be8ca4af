"""Bars and limits, with a fake clock; curves the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fake_watch import FakeWatch

from efflab.checking.exercise import Bar
from efflab.gpu import bars, curves, limits, peers

H200 = "NVIDIA H200"


class Clocked:
    """Two functions on one fake clock; peer "clocked" stands in the registry."""

    def __init__(self, monkeypatch, mine: float, theirs: float) -> None:
        self.watch = FakeWatch()
        monkeypatch.setitem(peers.PEERS, "clocked", peers.Peer(
            name="clocked", function=self.takes(theirs), what="", available=lambda: None))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda d: SimpleNamespace(L2_cache_size=0))
        self.mine = self.takes(mine)

    def takes(self, ms: float):
        def function(x):
            self.watch.now += ms
            return x
        return function

    def measure(self, gpu: str = H200, **bar):
        facts: dict[str, Any] = {"name": "b", "peer": "clocked", "at_least": 1.5,
                                 "inputs": lambda draw: {"x": torch.zeros(1), "alpha": 2.0}}
        made = Bar(**(facts | bar))
        mine, theirs = bars._sides(made, lambda x, alpha: self.mine(x), peers.peer("clocked"), 0, "cpu")
        return bars._race(made, gpu, mine, theirs, 5, self.watch)


def test_a_bar_that_is_reached(monkeypatch):
    result = Clocked(monkeypatch, 1.0, 2.0).measure(gpu="NVIDIA H200")
    assert (result.ms, result.peer_ms, result.ratio, result.judged, result.passed) == (1, 2, 2, True, True)
    assert "ratio 2.00 (bar 1.50, reached)" in result.sentence


def test_a_bar_that_is_missed(monkeypatch):
    result = Clocked(monkeypatch, 1.0, 1.2).measure(flops=1e12)
    assert (result.judged, result.passed) == (True, False)
    assert result.tflops == pytest.approx(1000)
    assert "not reached" in result.sentence


def test_elsewhere_the_ratio_is_shown_and_not_judged(monkeypatch):
    result = Clocked(monkeypatch, 1.0, 1.2).measure(gpu="Tesla T4")
    assert result.judged
    made = Clocked(monkeypatch, 1.0, 1.2)
    bar = Bar(name="b", peer="clocked", at_least=1.5, inputs=lambda draw: {"x": torch.zeros(1)}, gpu="H200")
    sides = bars._sides(bar, made.mine, peers.peer("clocked"), 0, "cpu")
    result = bars._race(bar, "Tesla T4", *sides, 5, made.watch)
    assert not result.judged
    assert result.ratio == pytest.approx(1.2)
    assert "reached" not in result.sentence


def test_faster_than_the_gpu_can_be_is_refused(monkeypatch):
    result = Clocked(monkeypatch, 1e-6, 1.0).measure(bytes=4.8e9)
    assert result.below_physical_limit
    assert not result.passed
    assert "needs for this much work" in result.sentence


def test_an_exception_of_the_function_is_a_failed_bar_and_of_the_peer_a_skipped_one(monkeypatch):
    clocked = Clocked(monkeypatch, 1.0, 1.0)

    def broken(x):
        raise ValueError("no")
    good = clocked.mine
    clocked.mine = broken
    result = clocked.measure()
    assert (result.judged, result.passed, result.error) == (True, False, "ValueError: no")
    assert "could not be timed" in result.sentence
    clocked.mine = good
    monkeypatch.setitem(peers.PEERS, "clocked", peers.Peer(name="clocked", function=broken, what="",
                                                           available=lambda: None))
    result = clocked.measure()
    assert "clocked raised ValueError" in result.skipped_reason
    assert not result.judged


@pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")
def test_without_a_gpu_a_bar_is_skipped_with_the_reason():
    bar = Bar(name="b", peer="clone", at_least=1.0, inputs=lambda draw: {"x": torch.zeros(1)})
    result = bars.measure(bar, torch.clone)
    assert (result.judged, result.passed) == (False, False)
    assert result.sentence == "b: not measured, there is no GPU here"
    assert result.as_dict()["skipped_reason"] == "there is no GPU here"


def test_limits():
    h200 = limits.peak("NVIDIA H200")
    assert h200 is not None
    assert h200.bandwidth == 4800e9
    assert [p.flops for p in map(limits.peak, ("NVIDIA L4", "NVIDIA L40S")) if p] == [121e12, 366e12]
    assert limits.peak("Unheard Of 9000") is None
    assert limits.fastest_ms(990e12, 0, h200) == pytest.approx(950)
    assert limits.fastest_ms(0, 4800e9, h200, l2_bytes=4800 * 10**9) == 0


@pytest.mark.parametrize("column", ["D64_N8192_full", "D128_N8192_causal", "D128_N16384_full"])
def test_measured_speeds_are_below_the_limits(column):
    """cuDNN's 463 to 606 TFLOP/s on an H200 must not be refused."""
    tflops = {"D64_N8192_full": 463, "D128_N8192_causal": 554, "D128_N16384_full": 681}[column]
    assert bars.limit_ms(H200, tflops * 1e12, 0) < 1e3


def test_a_curve(monkeypatch):
    clocked = Clocked(monkeypatch, 1.0, 2.0)
    curve = curves.Curve(name="c", axis="N", sizes=(1, 2), functions=("mine",), peers=("clocked",),
                         inputs=lambda draw, n: {"x": torch.zeros(n)}, work=lambda n: n * 1e9)
    told = curves.measure(curve, SimpleNamespace(mine=clocked.mine), repeats=3, device="cpu", watch=clocked.watch)
    assert told["gaps"] == []
    assert told["series"] == {"mine": [pytest.approx(1), pytest.approx(2)],
                              "clocked": [pytest.approx(0.5), pytest.approx(1)]}


def test_a_gap_in_a_curve_has_its_reason(monkeypatch):
    clocked = Clocked(monkeypatch, 1.0, 2.0)

    def fails_at_two(x):
        if len(x) == 2:
            raise torch.cuda.OutOfMemoryError("too much")
        return clocked.mine(x)
    curve = curves.Curve(name="c", axis="N", sizes=(1, 2), functions=("mine",), peers=("clocked",),
                         inputs=lambda draw, n: {"x": torch.zeros(n)}, work=lambda n: 1e9)
    told = curves.measure(curve, SimpleNamespace(mine=fails_at_two), repeats=3, device="cpu", watch=clocked.watch)
    assert told["series"]["mine"] == [pytest.approx(1), None]
    assert told["gaps"] == ["mine at N = 2: OutOfMemoryError: too much"]
