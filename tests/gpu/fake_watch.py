"""A stopwatch for tests."""

from __future__ import annotations


class FakeWatch:
    """A clock that only moves when the timed functions or the flush move it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events: list[str] = []

    def flush(self) -> None:
        self.now += 1000.0
        self.events.append("flush")

    def hold(self) -> None:
        self.now += 100.0

    def start(self) -> float:
        self.events.append("start")
        return self.now

    def stop(self, started: float) -> float:
        self.events.append("stop")
        return self.now - started

    def synchronize(self) -> None:
        self.events.append("synchronize")

    def read_ms(self, span: float) -> float:
        assert self.events[-1] == "synchronize", "read before the device had finished"
        return span
