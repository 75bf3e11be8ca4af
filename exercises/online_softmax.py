# Built from solutions/online_softmax.py by `efflab build`, with the answers cut out.
# Work on a copy:  ./run start online_softmax   puts one into work/online_softmax.py
# Check it:        ./run check work/online_softmax.py
"""Softmax along the last axis: in three passes, in one pass with running statistics, from pieces, and as one kernel.

    m = max_n x[n]                               the row's maximum
    l = sum_n exp(x[n] - m)                      its sum of exponentials, relative to m
    y[n] = exp(x[n] - m) / l

    (m, l) + (m', l') = (M, l * exp(m - M) + l' * exp(m' - M)),  M = max(m, m')      associative, empty = (-inf, 0)

N: size of the last axis.  M: rows.  A row of nothing but -inf has m = -inf, l = 0 and y = 0.
lse = m + log(l), the natural logarithm of sum_n exp(x[n]), -inf for such a row.
Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, arXiv:1805.02867.
"""

import math

import torch
import triton
import triton.language as tl

Stats = tuple[torch.Tensor, torch.Tensor]


# --- 1. The definition, in three passes ---------------------------------------------------------------------------

def softmax_3pass(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the last axis: a pass for the maximum, one for the sum, one to normalise.

    x: (..., N), float16, bfloat16 or float32; each row holds a number above -inf. Returns (..., N) in x's dtype.
    """
    raise NotImplementedError("softmax_3pass: your code goes here")


# --- 2. One pass: running maximum and running sum -----------------------------------------------------------------

def online_stats(x: torch.Tensor, block: int) -> Stats:
    """Maximum and sum of exponentials of each row, reading each block of `block` columns once.

    x: (..., N), float16, bfloat16 or float32. block >= 1, need not divide N and may exceed it.
    Returns m and l, both (...), float32: m the maximum, l the sum of exp(x - m); (-inf, 0) for a row of only -inf.
    """
    raise NotImplementedError("online_stats: your code goes here")


# --- 3. Merging ---------------------------------------------------------------------------------------------------

def merge_stats(a: Stats, b: Stats) -> Stats:
    """The statistics of two pieces of a row together.

    a, b: pairs (m, l) of float32 tensors of one shape; an empty piece is (-inf, 0). Returns such a pair.
    """
    raise NotImplementedError("merge_stats: your code goes here")


def merge_outputs(
    o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys together, from the attention over each.

    o1, o2: (..., D), each a softmax-weighted mean of its own values, 0 where it saw no key.
    lse1, lse2: (...), float32, log of its sum of exponentials, -inf where it saw no key.
    Returns o (..., D) in o1's dtype and lse (...) in float32.
    """
    raise NotImplementedError("merge_outputs: your code goes here")


# --- 4. Softmax from the running statistics -----------------------------------------------------------------------

def online_softmax(x: torch.Tensor, block: int) -> torch.Tensor:
    """Softmax along the last axis in two passes over blocks: online_stats, then normalise.

    x: (..., N), float16, bfloat16 or float32. Holds one block of intermediate values at a time.
    Returns (..., N) in x's dtype; a row of nothing but -inf gives zeros.
    """
    raise NotImplementedError("online_softmax: your code goes here")


# --- 5. The kernel: one row a program, the row stays in registers -------------------------------------------------

MAX_N = 65_536


def check_rows(x: torch.Tensor) -> None:
    """Refuse what the kernel cannot take."""
    if x.ndim != 2 or not 1 <= x.shape[1] <= MAX_N:
        raise ValueError(f"fused_softmax takes x (M, N) with N from 1 to {MAX_N:,}; got {tuple(x.shape)}")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"fused_softmax takes float16, bfloat16 or float32; got {x.dtype}; convert with .to(dtype)")


def warps_for(block_n: int) -> int:
    """Warps that share a row: 32 elements a thread, one warp at least, 16 at most (32 were slower at 65,536)."""
    return min(16, max(1, block_n // 1024))


@triton.jit
def fused_softmax_kernel(
    x_ptr, y_ptr,                     # (M, N) both
    x_row_stride, x_col_stride,       # elements from one row, one column to the next
    y_row_stride,                     # y's columns are adjacent
    N,
    BLOCK_N: tl.constexpr,            # power of two, at least N
):
    pass  # your code goes here


def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row of x (M, N), N up to 65,536, any strides; computed in float32, returned in x's dtype.

    A row of nothing but -inf gives zeros.
    """
    check_rows(x)
    raise NotImplementedError("fused_softmax: your code goes here")
