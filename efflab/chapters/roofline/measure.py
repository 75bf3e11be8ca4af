"""What this machine does: copy bandwidth by working-set size, matrix-product rates, the price of a launch.

Every time is taken with a `median_time`, in lessons the learner's own.
On a GPU: wall clock, torch.cuda.synchronize. Without one: a single CPU core, and the time this thread really ran
(time.thread_time), so that whatever else the machine does disturbs little.

    python -m efflab.chapters.roofline.measure      prints what measured.py holds for the H200
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

MedianTime = Callable[..., float]


@dataclass(frozen=True)
class MeasuredMachine:
    """peaks: FLOP/s of a matrix product by dtype name. bandwidth: bytes/s of a large copy, read and written.
    launch_us: one tiny operation. curve: (working set in bytes, bytes/s). caches: (name, bytes)."""

    name: str
    peaks: Mapping[str, float]
    bandwidth: float
    launch_us: float
    curve: tuple[tuple[int, float], ...]
    caches: tuple[tuple[str, int], ...] = ()

    @property
    def narrow(self) -> str:
        """The 16-bit dtype that was measured."""
        return next(name for name in self.peaks if name != "float32")

    def as_dict(self, dtype: str = "float32") -> dict[str, float]:
        """The machine as predict_ms takes it."""
        return {"peak_flops": self.peaks[dtype], "bandwidth": self.bandwidth, "launch_us": self.launch_us}

    def __str__(self) -> str:
        rates = "".join(f"{dtype:<12}{human(peak, 'FLOP/s')}, ridge at {peak / self.bandwidth:.0f} FLOP/byte\n"
                        for dtype, peak in self.peaks.items())
        return (f"{self.name}\n{rates}large copy  {human(self.bandwidth, 'B/s')}, read and written\n"
                f"one launch  {self.launch_us:.1f} µs")


def human(value: float, unit: str) -> str:
    """1.2e12, "FLOP/s" -> "1.2 TFLOP/s"."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.3g} {unit}"


class Stopwatch:
    """A median_time bound to this machine's clock and device."""

    def __init__(self, median_time: MedianTime) -> None:
        self._median_time = median_time
        self.on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if self.on_gpu else "cpu")
        self._trash: torch.Tensor | None = None

    def flush(self) -> None:
        """Push everything out of the caches: write more than they hold."""
        if self._trash is None:
            self._trash = torch.empty(2**28 if self.on_gpu else 3 * 2**25, dtype=torch.uint8, device=self.device)
        self._trash.zero_()

    def seconds(self, fn: Callable[[], object], *, cold: bool = True, warmup: int = 2, repeats: int = 7) -> float:
        """Median seconds of one call. cold: flush the caches before each."""
        with one_core():
            return self._median_time(
                fn, clock=time.perf_counter if self.on_gpu else time.thread_time,
                synchronize=torch.cuda.synchronize if self.on_gpu else _nothing, warmup=warmup, repeats=repeats,
                flush=self.flush if cold else None)


def _nothing() -> None:
    """A CPU has done the work when the call returns."""


@contextmanager
def one_core() -> Iterator[None]:
    """PyTorch on one CPU core, as long as this lasts."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def narrow_dtype() -> torch.dtype:
    """The 16-bit dtype to measure with: float16 on GPUs older than sm_80."""
    old = torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0)
    return torch.float16 if old else torch.bfloat16


def copy_curve(watch: Stopwatch) -> tuple[tuple[int, float], ...]:
    """Copy between two random buffers of equal size: (bytes of both together, bytes/s read and written)."""
    curve = []
    for power in range(20, 31) if watch.on_gpu else range(13, 28):
        x = torch.randn(2**power // 8, device=watch.device)
        y = torch.empty_like(x)
        copies = max(1, 2**28 // 2**power) if watch.on_gpu else 1
        copies = min(copies, 50)
        run = _graph_of_copies(x, y, copies) if watch.on_gpu else lambda x=x, y=y: y.copy_(x)
        seconds = watch.seconds(run, cold=False, repeats=15 if power < 24 or watch.on_gpu else 5)
        curve.append((2**power, 2**power * copies / seconds))
    return tuple(curve)


def _graph_of_copies(x: torch.Tensor, y: torch.Tensor, copies: int) -> Callable[[], None]:
    """Several copies as one CUDA graph, so that the launch does not hide the caches."""
    torch.add(x, 1.0, out=y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(copies):
            torch.add(x, 1.0, out=y)
    return graph.replay


def matmul_rate(watch: Stopwatch, dtype: torch.dtype) -> float:
    """FLOP/s of a large square product of random matrices."""
    n = (8192 if dtype != torch.float32 else 4096) if watch.on_gpu else (768 if dtype == torch.float32 else 512)
    a, b = (torch.randn(n, n, device=watch.device).to(dtype) for _ in range(2))
    c = torch.empty(n, n, device=watch.device, dtype=dtype)
    return 2 * n**3 / watch.seconds(lambda: torch.mm(a, b, out=c), cold=False, repeats=7)


def launch_us(watch: Stopwatch) -> float:
    """Microseconds for one operation that does next to nothing."""
    x = torch.randn(1, device=watch.device)
    y = torch.empty_like(x)
    return watch.seconds(lambda: torch.add(x, 1.0, out=y), cold=False, warmup=20, repeats=201) * 1e6


def measure_machine(median_time: MedianTime) -> MeasuredMachine:
    """Measure this machine; a few seconds."""
    watch = Stopwatch(median_time)
    curve = copy_curve(watch)
    peaks = {str(dtype).removeprefix("torch."): matmul_rate(watch, dtype) for dtype in (torch.float32, narrow_dtype())}
    return MeasuredMachine(name=machine_name(), peaks=peaks, bandwidth=curve[-1][1], launch_us=launch_us(watch),
                           curve=curve, caches=caches())


def machine_name() -> str:
    """The GPU's name, or "one core of" this CPU."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return "one core of " + next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "one core of this CPU"


def caches() -> tuple[tuple[str, int], ...]:
    """(name, bytes) of the data caches, where the system tells."""
    if torch.cuda.is_available():
        return (("L2", torch.cuda.get_device_properties(0).L2_cache_size),)
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K"):
            found.append((f"L{level}", int(size[:-1]) * 1024))
    return tuple(found)


def main() -> None:
    """Print this machine as the source of measured.py."""
    from solutions.roofline import median_time

    found: Any = measure_machine(median_time)
    print(found)
    curve = tuple((size, round(rate, -9)) for size, rate in found.curve)
    print(f"MeasuredMachine(\n    name={found.name!r}, peaks={ {k: round(v, -9) for k, v in found.peaks.items()} },\n"
          f"    bandwidth={round(found.bandwidth, -9)}, launch_us={found.launch_us:.1f}, caches={found.caches},\n"
          f"    curve={curve})")


if __name__ == "__main__":
    main()
