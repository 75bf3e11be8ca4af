"""Six operations, from a handful of numbers to attention: what each computes and moves, and how to run it here.

Work and traffic come from the learner's own count_matmul and count_attention where those apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from efflab.chapters.roofline.measure import MeasuredMachine, Stopwatch

Count = Callable[..., tuple[int, int]]
LAYER_NORM_FLOPS = 8     # an element: two for each of mean and variance, then subtract, scale, weight, bias
SOFTMAX_FLOPS = 5        # an element: maximum, subtract, exponential (counted as one), sum, divide


@dataclass(frozen=True)
class Operation:
    """flops, bytes: of one call. prepare: makes the inputs and returns the call.
    cold: timed with flushed caches; a launch is timed warm, for a flush takes the host's own code out of its cache."""

    name: str
    flops: int
    bytes: int
    dtype: str
    prepare: Callable[[], Callable[[], object]]
    cold: bool = True


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the six: numbers to scale, a normalisation's rows and columns, a weight, a square product, attention."""

    many: int
    rows: int
    cols: int
    weight: tuple[int, int]
    n: int
    attention: tuple[int, int, int, int]


GPU_SIZES = Sizes(many=2**27, rows=16384, cols=4096, weight=(8192, 28672), n=4096, attention=(4, 16, 4096, 128))
CPU_SIZES = Sizes(many=2**22, rows=2048, cols=1024, weight=(4096, 4096), n=512, attention=(1, 4, 512, 64))


def six_operations(mine: MeasuredMachine, count_matmul: Count, count_attention: Count) -> tuple[Operation, ...]:
    """The six, at sizes that suit this machine; work and traffic as the learner's functions count them."""
    on_gpu = torch.cuda.is_available()
    sizes, dtype = (GPU_SIZES, mine.narrow) if on_gpu else (CPU_SIZES, "float32")
    make = _Maker(torch.device("cuda" if on_gpu else "cpu"), getattr(torch, dtype))
    item = make.dtype.itemsize
    rows, cols, n, (k, m), (B, H, N, D) = sizes.rows, sizes.cols, sizes.n, sizes.weight, sizes.attention
    return (
        Operation("scale 1,000 numbers", 1000, 2000 * item, dtype, lambda: make.scale(1000), cold=False),
        Operation(f"scale {sizes.many:,} numbers", sizes.many, 2 * sizes.many * item, dtype,
                  lambda: make.scale(sizes.many)),
        make.layer_norm(rows, cols) if on_gpu else make.softmax(rows, cols),
        Operation(f"one row through {k:,} × {m:,}", *count_matmul(1, m, k, item), dtype,
                  lambda: make.product(1, m, k)),
        Operation(f"product, {n:,} × {n:,} × {n:,}", *count_matmul(n, n, n, item), dtype,
                  lambda: make.product(n, n, n)),
        Operation(f"fused attention, B {B}, H {H}, N {N:,}, D {D}", *count_attention(B, H, H, N, N, D, item), dtype,
                  lambda: make.attention(B, H, N, D)),
    )


@dataclass(frozen=True)
class _Maker:
    """Makes random inputs on a device and returns the call to time."""

    device: torch.device
    dtype: torch.dtype

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def random(self, *sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=self.device).to(self.dtype)

    def scale(self, count: int) -> Callable[[], object]:
        x = self.random(count)
        y = torch.empty_like(x)
        return lambda: torch.mul(x, 1.5, out=y)

    def product(self, M: int, N: int, K: int) -> Callable[[], object]:
        a, b, c = self.random(M, K), self.random(K, N), self.random(M, N)
        return lambda: torch.mm(a, b, out=c)

    def layer_norm(self, rows: int, cols: int) -> Operation:
        def prepare() -> Callable[[], object]:
            x, weight, bias = self.random(rows, cols), self.random(cols), self.random(cols)
            return lambda: F.layer_norm(x, (cols,), weight, bias)

        return Operation(f"LayerNorm, {rows:,} rows of {cols:,}", LAYER_NORM_FLOPS * rows * cols,
                         (2 * rows * cols + 2 * cols) * self.dtype.itemsize, self.name, prepare)

    def softmax(self, rows: int, cols: int) -> Operation:
        """In LayerNorm's place on a CPU: it can write to memory that is there. A new result each time would
        measure how the system hands out pages."""
        def prepare() -> Callable[[], object]:
            x = self.random(rows, cols)
            y = torch.empty_like(x)
            return lambda: torch.softmax(x, -1, out=y)

        return Operation(f"softmax, {rows:,} rows of {cols:,}", SOFTMAX_FLOPS * rows * cols,
                         2 * rows * cols * self.dtype.itemsize, self.name, prepare)

    def attention(self, B: int, H: int, N: int, D: int) -> Callable[[], object]:
        q, k, v = (self.random(B, H, N, D) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v)


def time_operation(operation: Operation, watch: Stopwatch) -> float:
    """Milliseconds of one call."""
    repeats = 7 if operation.cold else 101
    with torch.no_grad():
        return watch.seconds(operation.prepare(), cold=operation.cold, repeats=repeats) * 1e3
