# Built from solutions/roofline.py by `efflab build`, with the answers cut out.
# Work on a copy:  ./run start roofline   puts one into work/roofline.py
# Check it:        ./run check work/roofline.py
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
    raise NotImplementedError("count_matmul: your code goes here")


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
    raise NotImplementedError("count_attention: your code goes here")


# --- 2. The roof ------------------------------------------------------------------------------------------------------


def attainable(
    intensity: float | torch.Tensor, peak_flops: float, bandwidth: float
) -> float | torch.Tensor:
    """Return the FLOP/s that the roofline allows.

    intensity: FLOP/byte, one number or a tensor of them. peak_flops: FLOP/s. bandwidth: bytes/s.
    """
    raise NotImplementedError("attainable: your code goes here")


def bound(intensity: float, peak_flops: float, bandwidth: float) -> str:
    """Return "memory" left of the ridge and "compute" at the ridge and right of it."""
    raise NotImplementedError("bound: your code goes here")


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
    raise NotImplementedError("median_time: your code goes here")


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
    pass  # your code goes here


def scale_copy(x: torch.Tensor, alpha: float) -> torch.Tensor:
    """Return alpha * x as a new contiguous tensor of x's shape and dtype.

    x: float16, bfloat16 or float32, with any strides: transposed, sliced, expanded.
    It is read where it lies, once.
    """
    raise NotImplementedError("scale_copy: your code goes here")


# --- 5. A prediction --------------------------------------------------------------------------------------------------


def predict_ms(flops: float, bytes: float, machine: Mapping[str, float]) -> float:
    """Return the predicted time of one operation in milliseconds: roofline plus one launch.

    machine: {"peak_flops": FLOP/s, "bandwidth": bytes/s, "launch_us": microseconds}.
    """
    raise NotImplementedError("predict_ms: your code goes here")
