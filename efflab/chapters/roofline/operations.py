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


def six_operations(mine: MeasuredMachine, count_matmul: Count, count_attention: Count) -> tuple[Operation, ...]:
    """The six, at sizes that suit this machine."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    name = mine.narrow if on_gpu else "float32"
    dtype = getattr(torch, name)
    size = dtype.itemsize
    many = 2**27 if on_gpu else 2**22
    rows, cols = (16384, 4096) if on_gpu else (2048, 1024)
    n = 4096 if on_gpu else 512
    stats = torch.float32 if on_gpu else dtype
    k, m = (8192, 28672) if on_gpu else (4096, 4096)
    shape = (4, 16, 4096, 128) if on_gpu else (1, 4, 512, 64)

    def random(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, device=device).to(dtype)

    def scale(count: int) -> Callable[[], object]:
        x = random(count)
        y = torch.empty_like(x)
        return lambda: torch.mul(x, 1.5, out=y)

    def product(*sizes: int) -> Callable[[], object]:
        a, b = random(sizes[0], sizes[2]), random(sizes[2], sizes[1])
        c = torch.empty(sizes[0], sizes[1], device=device, dtype=dtype)
        return lambda: torch.mm(a, b, out=c)

    def layer_norm() -> Callable[[], object]:
        x, weight, bias = random(rows, cols), random(cols), random(cols)
        out = [torch.empty_like(x), *(torch.empty(rows, 1, device=device, dtype=stats) for _ in range(2))]
        norm = torch.ops.aten.native_layer_norm.out
        return lambda: norm(x, (cols,), weight, bias, 1e-5, out0=out[0], out1=out[1], out2=out[2])

    def attention() -> Callable[[], object]:
        q, key, value = (random(*shape) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, key, value)

    B, H, N, D = shape
    return (
        Operation("scale 1,000 numbers", 1000, 2000 * size, name, lambda: scale(1000), cold=False),
        Operation(f"scale {many:,} numbers", many, 2 * many * size, name, lambda: scale(many)),
        Operation(f"LayerNorm, {rows:,} rows of {cols:,}", LAYER_NORM_FLOPS * rows * cols,
                  (2 * rows * cols + 2 * cols) * size, name, layer_norm),
        Operation(f"one row through {k:,} × {m:,}", *count_matmul(1, m, k, size), name, lambda: product(1, m, k)),
        Operation(f"product, {n:,} × {n:,} × {n:,}", *count_matmul(n, n, n, size), name, lambda: product(n, n, n)),
        Operation(f"fused attention, B {B}, H {H}, N {N:,}, D {D}", *count_attention(B, H, H, N, N, D, size), name,
                  attention),
    )


def time_operation(operation: Operation, watch: Stopwatch) -> float:
    """Milliseconds of one call."""
    repeats = 7 if operation.cold else 101
    with torch.no_grad():
        return watch.seconds(operation.prepare(), cold=operation.cold, repeats=repeats) * 1e3
