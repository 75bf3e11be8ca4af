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
    # BEGIN SOLUTION
    x32 = x.float()                                                   # half precision only enters and leaves
    m = x32.amax(dim=-1, keepdim=True)                                # (..., 1)
    e = torch.exp(x32 - m)                                            # (..., N), at most 1
    l = e.sum(dim=-1, keepdim=True)                                   # (..., 1), at least 1
    return (e / l).to(x.dtype)
    # END SOLUTION


# --- 2. One pass: running maximum and running sum -----------------------------------------------------------------

def online_stats(x: torch.Tensor, block: int) -> Stats:
    """Maximum and sum of exponentials of each row, reading each block of `block` columns once.

    x: (..., N), float16, bfloat16 or float32. block >= 1, need not divide N and may exceed it.
    Returns m and l, both (...), float32: m the maximum, l the sum of exp(x - m); (-inf, 0) for a row of only -inf.
    """
    # BEGIN SOLUTION
    m = torch.full(x.shape[:-1], -math.inf, device=x.device)          # (...)
    l = torch.zeros_like(m)
    for start in range(0, x.shape[-1], block):
        s = x[..., start:start + block].float()                       # (..., block)
        m_new = torch.maximum(m, s.amax(dim=-1))
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)            # nothing seen yet: exp(-inf - 0) = 0, not NaN
        l = l * torch.exp(m - shift) + torch.exp(s - shift.unsqueeze(-1)).sum(dim=-1)
        m = m_new
    return m, l
    # END SOLUTION


# --- 3. Merging ---------------------------------------------------------------------------------------------------

def merge_stats(a: Stats, b: Stats) -> Stats:
    """The statistics of two pieces of a row together.

    a, b: pairs (m, l) of float32 tensors of one shape; an empty piece is (-inf, 0). Returns such a pair.
    """
    # BEGIN SOLUTION
    (m_a, l_a), (m_b, l_b) = a, b
    m = torch.maximum(m_a, m_b)
    shift = m.masked_fill(m == -math.inf, 0.0)                        # both empty: 0 * exp(-inf) stays 0
    return m, l_a * torch.exp(m_a - shift) + l_b * torch.exp(m_b - shift)
    # END SOLUTION


def merge_outputs(
    o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys together, from the attention over each.

    o1, o2: (..., D), each a softmax-weighted mean of its own values, 0 where it saw no key.
    lse1, lse2: (...), float32, log of its sum of exponentials, -inf where it saw no key.
    Returns o (..., D) in o1's dtype and lse (...) in float32.
    """
    # BEGIN SOLUTION
    m = torch.maximum(lse1, lse2)                                     # (...)
    shift = m.masked_fill(m == -math.inf, 0.0)
    w1, w2 = torch.exp(lse1 - shift), torch.exp(lse2 - shift)         # the larger one is 1, or both are 0
    total = w1 + w2
    safe = total.masked_fill(total == 0, 1.0)
    o = o1.float() * (w1 / safe).unsqueeze(-1) + o2.float() * (w2 / safe).unsqueeze(-1)
    return o.to(o1.dtype), m + torch.log(total)                       # and -inf + log(0) is -inf
    # END SOLUTION


# --- 4. Softmax from the running statistics -----------------------------------------------------------------------

def online_softmax(x: torch.Tensor, block: int) -> torch.Tensor:
    """Softmax along the last axis in two passes over blocks: online_stats, then normalise.

    x: (..., N), float16, bfloat16 or float32. Holds one block of intermediate values at a time.
    Returns (..., N) in x's dtype; a row of nothing but -inf gives zeros.
    """
    # BEGIN SOLUTION
    m, l = online_stats(x, block)
    shift = m.masked_fill(m == -math.inf, 0.0).unsqueeze(-1)
    scale = 1 / l.masked_fill(l == 0, 1.0).unsqueeze(-1)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        cols = slice(start, start + block)
        y[..., cols] = torch.exp(x[..., cols].float() - shift) * scale
    return y
    # END SOLUTION


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
    # BEGIN SOLUTION
    # Which piece: program `row` owns one row. int64, or row * stride overflows past 2**31 elements.
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    inside = cols < N

    # The only load. -inf past the end: no influence on the maximum, and exp(-inf) adds nothing to the sum.
    x = tl.load(x_ptr + row * x_row_stride + cols.to(tl.int64) * x_col_stride, mask=inside, other=float("-inf"))
    x = x.to(tl.float32)

    m = tl.max(x, axis=0)
    shift = tl.where(m == float("-inf"), 0.0, m)          # a row of only -inf: exp(-inf - 0) = 0, not NaN
    p = tl.exp(x - shift)
    l = tl.sum(p, axis=0)
    y = p * (1.0 / tl.where(l == 0.0, 1.0, l))            # one division a row; and 0 / 1 for that row

    tl.store(y_ptr + row * y_row_stride + cols, y.to(y_ptr.dtype.element_ty), mask=inside)
    # END SOLUTION


def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of each row of x (M, N), N up to 65,536, any strides; computed in float32, returned in x's dtype.

    A row of nothing but -inf gives zeros.
    """
    check_rows(x)
    # BEGIN SOLUTION
    M, N = x.shape
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    block_n = triton.next_power_of_2(N)
    if M > 0:
        fused_softmax_kernel[(M,)](x, y, x.stride(0), x.stride(1), y.stride(0), N,
                                   BLOCK_N=block_n, num_warps=warps_for(block_n))
    return y
    # END SOLUTION
