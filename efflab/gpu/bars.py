"""Measure a bar: the exercise's function and its peer, turn by turn, in one run, on the same fresh inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from efflab.gpu import limits, timing
from efflab.gpu.peers import Peer, peer

if TYPE_CHECKING:
    from efflab.checking.exercise import Bar

SETS = 2            # of inputs; the cache is flushed besides


@dataclass(frozen=True, kw_only=True)
class BarResult:
    """ratio: peer's time / function's time. judged: whether the bar counts on this GPU. tflops, tbps: of the function.
    below_physical_limit: faster than the GPU can be, so refused. skipped_reason: why nothing was measured."""

    name: str
    peer: str
    at_least: float
    gpu: str
    ms: float | None = None
    peer_ms: float | None = None
    ratio: float | None = None
    spread: float | None = None
    stretch: float | None = None
    judged: bool = False
    passed: bool = False
    tflops: float | None = None
    peer_tflops: float | None = None
    tbps: float | None = None
    peer_tbps: float | None = None
    limit_ms: float | None = None
    below_physical_limit: bool = False
    error: str | None = None
    skipped_reason: str | None = None

    @property
    def sentence(self) -> str:
        """What came out, for the learner."""
        if self.skipped_reason:
            return f"{self.name}: not measured, {self.skipped_reason}"
        if self.error:
            return f"{self.name}: could not be timed, {self.error}"
        if self.ms is None or self.peer_ms is None or self.ratio is None:
            raise RuntimeError(f"{self.name}: a result without times needs a reason")
        if self.below_physical_limit:
            return (f"{self.name}: {self.ms:.4g} ms is less than the {self.limit_ms:.4g} ms that {self.gpu} needs for "
                    "this much work. Is all of it done, on each call, and finished before the function returns?")
        verdict = "" if not self.judged else ", reached" if self.passed else ", not reached"
        rate = f", {self.tflops:.0f} TFLOP/s" if self.tflops else f", {self.tbps:.2f} TB/s" if self.tbps else ""
        return (f"{self.name}: {self.ms:.4g} ms{rate}; {self.peer} {self.peer_ms:.4g} ms; ratio {self.ratio:.2f} "
                f"(bar {self.at_least:.2f}{verdict})")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(bar: Bar, function: Callable[..., Any], seed: int = 0, *, repeats: int = 30,
            watch: timing.Watch | None = None, device: str | None = None) -> BarResult:
    """Time `function` against the bar's peer. Without a GPU, or without the peer, the result says why not.

    watch, device: for tests; by default CUDA events on the first GPU.
    """
    if device is None and not torch.cuda.is_available():
        return _nothing(bar, "no GPU", skipped_reason="there is no GPU here")
    gpu = torch.cuda.get_device_name() if device is None else device
    rival = peer(bar.peer)
    if (reason := rival.available()) is not None:
        return _nothing(bar, gpu, skipped_reason=f"{rival.name} {reason}")
    try:
        mine, theirs = _sides(bar, function, rival, seed, device or "cuda")
        return _race(bar, gpu, mine, theirs, repeats, watch)
    except torch.cuda.OutOfMemoryError:
        return _nothing(bar, gpu, skipped_reason="the GPU's memory is too small for it or in use by something else")
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _nothing(bar: Bar, gpu: str, **why: Any) -> BarResult:
    return BarResult(name=bar.name, peer=bar.peer, at_least=bar.at_least, stretch=bar.stretch, gpu=gpu, **why)


def _sides(bar: Bar, function: Callable[..., Any], rival: Peer, seed: int,
           device: str) -> tuple[timing.Side, timing.Side]:
    from efflab.checking.draw import Draw

    def for_rival(inputs: Mapping[str, Any]) -> dict[str, Any]:
        return rival.inputs(inputs if bar.peer_inputs is None else bar.peer_inputs(inputs))

    sets = [bar.inputs(Draw(seed + i, device)) for i in range(SETS)]
    return (timing.Side(function=function, sets=sets),
            timing.Side(function=rival.function, sets=[for_rival(inputs) for inputs in sets]))


def _race(bar: Bar, gpu: str, mine: timing.Side, theirs: timing.Side, repeats: int,
          watch: timing.Watch | None) -> BarResult:
    for side, whose in ((theirs, bar.peer), (mine, "")):
        try:
            side.call(0)
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:300]}"
            if whose:
                return _nothing(bar, gpu, skipped_reason=f"{whose} raised {said}")
            return _nothing(bar, gpu, judged=_counts(bar, gpu), error=said)
    with torch.no_grad():
        times = timing.race({"mine": mine, "theirs": theirs}, repeats=repeats, watch=watch)
    return _result(bar, gpu, times["mine"], times["theirs"])


def _counts(bar: Bar, gpu: str) -> bool:
    return bar.gpu is None or bar.gpu in gpu


def _result(bar: Bar, gpu: str, mine: timing.Timing, theirs: timing.Timing) -> BarResult:
    fastest = limit_ms(gpu, bar.flops, bar.bytes)
    refused = mine.ms < fastest
    ratio = theirs.ms / mine.ms if mine.ms > 0 else float("inf")

    def rate(amount: float, ms: float) -> float | None:
        return amount / (ms * 1e-3) / 1e12 if amount and ms > 0 else None

    return BarResult(
        name=bar.name, peer=bar.peer, at_least=bar.at_least, stretch=bar.stretch, gpu=gpu, ms=mine.ms,
        peer_ms=theirs.ms, ratio=ratio, spread=mine.spread, judged=_counts(bar, gpu),
        passed=not refused and ratio >= bar.at_least, tflops=rate(bar.flops, mine.ms), tbps=rate(bar.bytes, mine.ms),
        peer_tflops=rate(bar.flops, theirs.ms), peer_tbps=rate(bar.bytes, theirs.ms), limit_ms=fastest,
        below_physical_limit=refused)


_measured: dict[str, limits.Peak] = {}      # GPUs that are not in the table, measured once in a process


def limit_ms(gpu: str, flops: float, bytes_moved: float) -> float:
    """The time in ms below which a result for this GPU is refused."""
    known = limits.peak(gpu) or _measured.get(gpu)
    if known is None:
        if not torch.cuda.is_available():
            return 0.0
        known = _measured[gpu] = limits.measured_peak()
    l2 = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) if torch.cuda.is_available() else 0
    return limits.fastest_ms(flops, bytes_moved, known, l2)
