"""The roofline: count an operation's work and traffic, time it honestly, predict it.

    intensity  = FLOPs / bytes                                   FLOP per byte moved to or from memory
    attainable = min(peak, intensity * bandwidth)                FLOP/s
    time       = max(FLOPs / peak, bytes / bandwidth) + launch

M, N, K: a product (M, K) @ (K, N).  B: batch.  Hq, Hkv: query and key/value heads.
Nq, Nk: queries and keys.  D: head size.  Every operand is read or written once; a multiply-add is two FLOPs.
"""

import statistics
from collections.abc import Callable, Mapping

import torch
import triton
import triton.language as tl

# --- 1. Counting ------------------------------------------------------------------------------------------------------


def count_matmul(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    """Return (flops, bytes) of C = A @ B with A (M, K), B (K, N) and C (M, N).

    A and B are read once, C is written once; a multiply-add is two FLOPs.
    """
    # BEGIN SOLUTION
    flops = 2 * M * N * K
    elements = M * K + K * N + M * N
    return flops, elements * bytes_per_element
    # END SOLUTION


def count_attention(
    B: int, Hq: int, Hkv: int, Nq: int, Nk: int, D: int, bytes_per_element: int,
    causal: bool = False, fused: bool = True,
) -> tuple[int, int]:
    """Return (flops, bytes) of attention.

    q and o are (B, Hq, Nq, D), k and v (B, Hkv, Nk, D), S and P (B, Hq, Nq, Nk).
    flops: both products, q kᵀ and p v, for the visible pairs (the softmax is not counted).
        causal=True: query i sees keys j <= i + Nk - Nq, which can be none of them.
    bytes: q, k, v read once and o written once. fused=False: S is also written and read,
        and P written and read, all Nq × Nk of them, visible or not.
    """
    # BEGIN SOLUTION
    pairs = Nq * Nk
    if causal:
        pairs = sum(min(max(i + Nk - Nq + 1, 0), Nk) for i in range(Nq))
    flops = 4 * B * Hq * D * pairs
    elements = 2 * B * Hq * Nq * D + 2 * B * Hkv * Nk * D
    if not fused:
        elements += 4 * B * Hq * Nq * Nk
    return flops, elements * bytes_per_element
    # END SOLUTION


# --- 2. The roof ------------------------------------------------------------------------------------------------------


def attainable(
    intensity: float | torch.Tensor, peak_flops: float, bandwidth: float
) -> float | torch.Tensor:
    """Return the FLOP/s that the roofline allows.

    intensity: FLOP/byte, one number or a tensor of them. peak_flops: FLOP/s. bandwidth: bytes/s.
    """
    # BEGIN SOLUTION
    slope = intensity * bandwidth
    if isinstance(slope, torch.Tensor):
        return slope.clamp(max=peak_flops)
    return min(slope, peak_flops)
    # END SOLUTION


def bound(intensity: float, peak_flops: float, bandwidth: float) -> str:
    """Return "memory" left of the ridge and "compute" at the ridge and right of it."""
    # BEGIN SOLUTION
    return "memory" if intensity < peak_flops / bandwidth else "compute"
    # END SOLUTION


# --- 3. A stopwatch ---------------------------------------------------------------------------------------------------


def median_time(
    fn: Callable[[], object], *, clock: Callable[[], float], synchronize: Callable[[], None],
    warmup: int = 3, repeats: int = 10, flush: Callable[[], None] | None = None,
) -> float:
    """Return the median time of one call of fn, in seconds.

    fn() and flush() only queue work on the device; synchronize() waits until all of it is
    done; clock() reads the host's time in seconds. `warmup` calls come first and are not
    timed. Before each of the timed repeats the cache is emptied with flush(), if there is
    one, outside the timed span. With an even number of repeats: the mean of the middle two.
    """
    # BEGIN SOLUTION
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(repeats):
        if flush is not None:
            flush()
        synchronize()               # or the flush, still running, is timed too
        start = clock()
        fn()
        synchronize()               # or only the launch is timed
        times.append(clock() - start)
    return statistics.median(times)
    # END SOLUTION


# --- 4. A kernel that only moves bytes --------------------------------------------------------------------------------

SCALE_COPY_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def merged_axes(x: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return x's shape and strides, with axes merged where memory runs on without a gap."""
    axes: list[tuple[int, int]] = []
    for size, stride in zip(x.shape, x.stride(), strict=True):
        if axes and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        elif size != 1:
            axes.append((size, stride))
    shape, strides = zip(*axes, strict=True) if axes else ((1,), (1,))
    return shape, strides


@triton.jit
def scale_copy_kernel(
    x_ptr, y_ptr,                     # x of any strides; y contiguous, of the same shape
    alpha, numel,
    shape, strides,                   # of x, RANK of them each, in elements
    RANK: tl.constexpr, BLOCK: tl.constexpr,
):
    """Write alpha * x to y, BLOCK elements a program."""
    # BEGIN SOLUTION
    # Which piece: elements i of y. int64, or i overflows past 2**31 elements.
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < numel

    # Where element i lies in x: its index on each axis, last axis first, times that axis's stride.
    rest = i
    offset = tl.zeros_like(i)
    for axis in tl.static_range(RANK - 1, 0, -1):
        offset += rest % shape[axis] * strides[axis]
        rest = rest // shape[axis]
    offset += rest * strides[0]       # with one axis this is i * stride, and the compiler reads 16 bytes at once

    x = tl.load(x_ptr + offset, mask=inside)
    y = x.to(tl.float32) * alpha      # float32, so that alpha is not rounded to 16 bits first
    tl.store(y_ptr + i, y.to(y_ptr.dtype.element_ty), mask=inside)
    # END SOLUTION


def scale_copy(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return alpha * x as a new contiguous tensor of x's shape and dtype.

    x: float16, bfloat16 or float32, with any strides: transposed, sliced, expanded.
    It is read where it lies, once.
    """
    # BEGIN SOLUTION
    if x.dtype not in SCALE_COPY_DTYPES:
        raise TypeError(f"scale_copy takes float16, bfloat16 or float32; got {x.dtype}; convert with .to(dtype)")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)     # not empty_like: that would copy x's strides
    if x.numel() == 0:
        return y
    shape, strides = merged_axes(x)
    BLOCK = 1024
    grid = (triton.cdiv(x.numel(), BLOCK),)
    scale_copy_kernel[grid](x, y, alpha, x.numel(), shape, strides, RANK=len(shape), BLOCK=BLOCK)
    return y
    # END SOLUTION


# --- 5. A prediction --------------------------------------------------------------------------------------------------


def predict_ms(flops: float, bytes: float, machine: Mapping[str, float]) -> float:
    """Return the predicted time of one operation in milliseconds: roofline plus one launch.

    machine: {"peak_flops": FLOP/s, "bandwidth": bytes/s, "launch_us": microseconds}.
    """
    # BEGIN SOLUTION
    seconds = max(flops / machine["peak_flops"], bytes / machine["bandwidth"])
    return seconds * 1e3 + machine["launch_us"] * 1e-3
    # END SOLUTION
