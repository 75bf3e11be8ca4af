"""A device made of arithmetic: calls queue work on it, `synchronize` waits for it, `clock` reads the host's time.

It stands in for a GPU where the judge must know every duration beforehand. It knows no answer: what a call takes
comes with the inputs. Inside, a second is 2**20 ticks, so that sums and means of times are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TICK = 2.0**-20          # seconds, about a microsecond
LAUNCH = TICK            # what the host spends to queue one piece of work


@dataclass
class FakeDevice:
    """cold, warm: how long the i-th call of `run` takes on the device, with a flushed and with a warm cache; the
    lists start over when they end. first: extra for the first call (compiling). pending: work queued before.

    log: ("run" | "flush" | "synchronize" | "clock", host time before, host time after, device start, device end).
    """

    cold: Sequence[float]
    warm: Sequence[float]
    flush_takes: float = 0.0
    first: float = 0.0
    pending: float = 0.0
    host: float = 0.0
    free_at: float = 0.0
    log: list[tuple[str, float, float, float, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_at = self.pending
        self._calls, self._is_cold = 0, False

    def run(self) -> None:
        """The function to be timed."""
        i = self._calls % len(self.cold)
        takes = (self.cold if self._is_cold else self.warm)[i] + (0.0 if self._calls else self.first)
        self._calls, self._is_cold = self._calls + 1, False
        self._queue("run", takes)

    def flush(self) -> None:
        """Empty the cache: the next run is cold."""
        self._is_cold = True
        self._queue("flush", self.flush_takes)

    def synchronize(self) -> None:
        before, self.host = self.host, max(self.host, self.free_at)
        self.log.append(("synchronize", before, self.host, self.host, self.host))

    def clock(self) -> float:
        self.log.append(("clock", self.host, self.host, self.host, self.host))
        return self.host

    def _queue(self, what: str, takes: float) -> None:
        before, self.host = self.host, self.host + LAUNCH
        start = max(self.free_at, self.host)
        self.free_at = start + takes
        self.log.append((what, before, self.host, start, self.free_at))


def time_on_fake_device(function: Callable[..., float], *, flush: bool, options: dict[str, int], flush_takes: int,
                        first: int, pending: int, cold: list[int], warm: list[int]) -> Any:
    """Call median_time on a fake device; return (seconds, calls before the first reading, one line a repeat).

    options: warmup and repeats, where they are given. Durations as FakeDevice has them, in ticks.
    """
    device = FakeDevice([t * TICK for t in cold], [t * TICK for t in warm], flush_takes * TICK, first * TICK,
                        pending * TICK)
    extra: dict[str, Any] = {"flush": device.flush} if flush else {}
    seconds = function(device.run, clock=device.clock, synchronize=device.synchronize, **options, **extra)
    return (seconds, *order_of_events([event[0] for event in device.log]))


def order_of_events(events: Sequence[str]) -> tuple[int, list[str]]:
    """(calls of the function before the first reading, what happened round each pair of readings).

    What makes no difference is left out: waiting twice, waiting before a flush, anything after the last reading.
    """
    readings = [i for i, event in enumerate(events) if event == "clock"]
    warm_up = events[:readings[0]].count("run") if readings else events.count("run")
    lines, since = [], 0
    for start, end in zip(readings[::2], readings[1::2], strict=False):
        before = [event for event in events[since:start] if event != "run"]
        last_flush = max((i for i, event in enumerate(before) if event == "flush"), default=None)
        waits = "synchronize" in before[(last_flush or 0):]
        said = [*(["flush"] if last_flush is not None else []), *(["synchronize"] if waits else []), "clock",
                *_without_repeated_waits(events[start + 1:end]), "clock"]
        lines.append(" ".join(said))
        since = end + 1
    return warm_up, lines


def _without_repeated_waits(events: Sequence[str]) -> list[str]:
    return [e for i, e in enumerate(events) if e != "synchronize" or i == 0 or events[i - 1] != "synchronize"]
