"""Honest times: fresh random inputs in rotation, caches flushed outside the timed span, the median of many.

Zeros are faster than data, a buffer that fits in L2 is faster than memory, an unsynchronised clock measures
the launch. So inputs are random and there are several sets of them, a buffer twice the size of L2 is written
before each repeat, and GPU times come from events on the GPU's own stream.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

Function = Callable[..., Any]
Inputs = Mapping[str, Any] | Sequence[Any]
HOLD_CYCLES = 200_000           # about 0.1 ms: longer than Python takes to launch a few kernels
FLUSH_BYTES_CPU = 64 << 20      # more than the last-level cache share of a laptop's or a cloud machine's core


@dataclass(frozen=True, kw_only=True)
class Timing:
    """ms: the median. spread: (third quartile - first quartile) / median. times_ms: all repeats, in order.
    sets: how many sets of inputs took turns."""

    ms: float
    spread: float
    times_ms: tuple[float, ...]
    sets: int

    def __str__(self) -> str:
        return f"{self.ms:.4g} ms (middle half within {self.spread:.0%}, {len(self.times_ms)} repeats)"


class Watch(Protocol):
    """A stopwatch for one device. A span is started, stopped, and read after `synchronize`.

    Before a span either `flush` empties the caches, or `hold` leaves them as they are.
    """

    def flush(self) -> None: ...
    def hold(self) -> None: ...
    def start(self) -> Any: ...
    def stop(self, started: Any) -> Any: ...
    def synchronize(self) -> None: ...
    def read_ms(self, span: Any) -> float: ...


class CpuWatch:
    """time.perf_counter, and a buffer written to push inputs out of the caches."""

    def __init__(self) -> None:
        self._buffer = torch.empty(FLUSH_BYTES_CPU, dtype=torch.uint8)

    def flush(self) -> None:
        self._buffer.fill_(1)

    def hold(self) -> None:
        return

    def start(self) -> float:
        return time.perf_counter()

    def stop(self, started: float) -> float:
        return time.perf_counter() - started

    def synchronize(self) -> None:
        return

    def read_ms(self, span: float) -> float:
        return span * 1e3


class CudaWatch:
    """CUDA events on the current stream. The flush keeps the GPU busy while Python launches what is timed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        l2 = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0) or 64 << 20
        self._buffer = torch.empty(max(2 * l2, 256 << 20), dtype=torch.uint8, device=device)

    def flush(self) -> None:
        self._buffer.zero_()

    def hold(self) -> None:
        """Keep the GPU busy without touching its caches, so that it does not wait for Python within the span."""
        torch.cuda._sleep(HOLD_CYCLES)

    def start(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def stop(self, started: torch.cuda.Event) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return started, event

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def read_ms(self, span: tuple[torch.cuda.Event, torch.cuda.Event]) -> float:
        return span[0].elapsed_time(span[1])


@dataclass(frozen=True, kw_only=True)
class Side:
    """One function in a race, with its sets of inputs."""

    function: Function
    sets: Sequence[Inputs]
    spans: list[Any] = field(default_factory=list)

    def call(self, turn: int) -> Any:
        inputs = self.sets[turn % len(self.sets)]
        return self.function(**inputs) if isinstance(inputs, Mapping) else self.function(*inputs)


def median_ms(fn: Function, make_inputs: Callable[[], Inputs], *, warmup: int = 5, repeats: int = 20,
              flush: bool = True, sets: int = 3, watch: Watch | None = None) -> Timing:
    """Median time of fn(**inputs), or fn(*inputs), in milliseconds.

    make_inputs: called `sets` times, so that the calls take turns on different random inputs.
    watch: the clock; by default that of the device the inputs are on.
    """
    made = [make_inputs() for _ in range(sets)]
    return race({"": Side(function=fn, sets=made)}, warmup=warmup, repeats=repeats, flush=flush, watch=watch)[""]


def race(sides: Mapping[str, Side], *, warmup: int = 5, repeats: int = 20, flush: bool = True,
         watch: Watch | None = None) -> dict[str, Timing]:
    """Time several functions turn by turn in one run, so that clocks and heat treat them alike."""
    if warmup < 1 or repeats < 1:
        raise ValueError(f"timing needs at least one warm-up call and one repeat; got {warmup} and {repeats}")
    watch = watch or watch_for(next(iter(sides.values())).sets[0])
    for side in sides.values():
        for turn in range(warmup):          # compiles, fills caches of compiled code, wakes the clocks
            side.call(turn)
    watch.synchronize()
    for turn in range(repeats):
        for side in list(sides.values())[::1 if turn % 2 == 0 else -1]:     # nobody always goes first
            if flush:
                watch.flush()
            else:
                watch.hold()
            started = watch.start()
            side.call(turn)
            side.spans.append(watch.stop(started))
    watch.synchronize()
    return {name: _timing([watch.read_ms(span) for span in side.spans], len(side.sets))
            for name, side in sides.items()}


def _timing(times: list[float], sets: int) -> Timing:
    ms = statistics.median(times)
    quartiles = statistics.quantiles(times, n=4) if len(times) > 1 else [ms] * 3
    spread = (quartiles[2] - quartiles[0]) / ms if ms > 0 else 0.0
    return Timing(ms=ms, spread=spread, times_ms=tuple(times), sets=sets)


def watch_for(inputs: Inputs) -> Watch:
    """The clock of the device that the first tensor of `inputs` is on; the CPU's where there is none."""
    values = inputs.values() if isinstance(inputs, Mapping) else inputs
    device = next((v.device for v in values if isinstance(v, torch.Tensor)), torch.device("cpu"))
    return CudaWatch(device) if device.type == "cuda" else CpuWatch()


def copy_bandwidth(device: str = "cuda", size: int = 1 << 30) -> float:
    """Bytes per second of a copy on the device, read and written bytes both counted. size: bytes of the source."""
    out = torch.empty(size // 4, device=device)
    timing = median_ms(lambda x: out.copy_(x), lambda: [torch.randn(size // 4, device=device)], sets=2)
    return 2 * size / (timing.ms * 1e-3)
