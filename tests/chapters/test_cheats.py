"""Right values by a way that the exercise rules out, and wrong values that only rare inputs show: each is refused."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from efflab import course
from efflab.checking import check_function, judge
from solutions.flash_attention import flash_attention as right_attention
from solutions.flash_attention import tiled_attention as right_tiled
from solutions.online_softmax import merge_outputs as right_merge
from solutions.online_softmax import online_stats as right_stats

Pair = tuple[torch.Tensor, torch.Tensor]


@triton.jit
def nothing_kernel(y_ptr, N: tl.constexpr):
    """Writes back what it read."""
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(y_ptr + i))


def launch_nothing(y: torch.Tensor) -> torch.Tensor:
    nothing_kernel[(1,)](y, N=1)
    return y


# --- another operator does it -----------------------------------------------------------------------------------------

def softmax_through_logaddexp2(x: torch.Tensor) -> torch.Tensor:
    lse = torch.full_like(x[..., 0].float(), -math.inf)
    for n in range(x.shape[-1]):
        lse = torch.logaddexp2(lse, x[..., n].float() / math.log(2))
    return torch.exp(x.float() - lse.unsqueeze(-1) * math.log(2)).to(x.dtype)


def softmax_with_a_mask(x: torch.Tensor) -> torch.Tensor:
    rows = x.float().reshape(-1, x.shape[-1])
    return torch._masked_softmax(rows, torch.zeros_like(rows, dtype=torch.bool), 1, 0).reshape(x.shape).to(x.dtype)


def softmax_of_sparse(x: torch.Tensor) -> torch.Tensor:
    rows = x.float().reshape(-1, x.shape[-1])
    moved = rows - rows.amax(-1, keepdim=True) + 1e-30
    i, j = torch.meshgrid(torch.arange(rows.shape[0]), torch.arange(rows.shape[1]), indexing="ij")
    sparse = torch.sparse_coo_tensor(torch.stack([i.reshape(-1), j.reshape(-1)]), moved.reshape(-1), rows.shape)
    return torch.sparse.softmax(sparse, 1).to_dense().reshape(x.shape).to(x.dtype)


def softmax_through_attention(x: torch.Tensor) -> torch.Tensor:
    rows = x.float().reshape(1, -1, x.shape[-1])
    one = torch.eye(x.shape[-1])[None]
    return F.scaled_dot_product_attention(rows, one, one, scale=1.0).reshape(x.shape).to(x.dtype)


def softmax_in_numpy(x: torch.Tensor) -> torch.Tensor:
    a = x.float().numpy().astype(np.float64)
    e = np.exp(a - a.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True)).to(x.dtype)


def softmax_in_numpy_by_asarray(x: torch.Tensor) -> torch.Tensor:
    a = np.asarray(x.float()).astype(np.float64)
    e = np.exp(a - a.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True)).to(x.dtype)


def softmax_in_numpy_by_dlpack(x: torch.Tensor) -> torch.Tensor:
    a = np.from_dlpack(x.float()).astype(np.float64)
    e = np.exp(a - a.max(-1, keepdims=True))
    return torch.from_numpy(e / e.sum(-1, keepdims=True)).to(x.dtype)


def softmax_in_a_thread(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    thread = threading.Thread(target=lambda: y.copy_(torch.softmax(x.float(), -1)))
    thread.start()
    thread.join()
    return y


def merged_through_logaddexp2(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    o, _ = right_merge(o1, lse1, o2, lse2)
    return o, torch.logaddexp2(lse1 / math.log(2), lse2 / math.log(2)) * math.log(2)


def attention_in_torch(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Pair:
    """Right values and a kernel launch, but PyTorch does the work, with operators that are no matrix product."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1).float(), v.repeat_interleave(group, 1).float()
    s = (q.float().unsqueeze(3) * k.unsqueeze(2)).sum(-1) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        s = s.where(torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[3] - s.shape[2]), -math.inf)
    m = s.amax(-1, keepdim=True)
    p = torch.exp(s - m.masked_fill(m == -math.inf, 0.0))
    l = p.sum(-1, keepdim=True)
    o = (p.unsqueeze(-1) * v.unsqueeze(2)).sum(3) / l.masked_fill(l == 0, 1.0)
    return launch_nothing(o.to(q.dtype)), (m + l.log()).squeeze(-1)


def fused_softmax_in_torch(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype)
    for row in range(x.shape[0]):
        for at in range(0, x.shape[1], 1024):
            y[row, at:at + 1024] = x[row, at:at + 1024]
        y[row] -= y[row].amax().nan_to_num(neginf=0.0)
        y[row].exp_()
        y[row] /= y[row].sum(dtype=torch.float32).clamp(min=1e-30)
    return launch_nothing(y)


def scaled_by_linear(x: torch.Tensor, alpha: float) -> torch.Tensor:
    y = torch.empty(x.shape, dtype=x.dtype)
    torch.sub(x, x, alpha=1.0 - alpha, out=y)
    return launch_nothing(y)


@triton.jit
def python_in_a_kernel(y_ptr, N: tl.constexpr):
    """Triton's interpreter runs the body as Python."""
    work = WORK.pop()
    work()


WORK: list[Callable[[], Any]] = []


def attention_inside_the_interpreter(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Pair:
    o, lse = torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[:3])

    def work() -> None:
        baseline = course.find_exercise("flash_attention.flash_attention").baseline
        assert baseline is not None
        right_o, right_lse = baseline(q, k, v, causal, scale)
        o.copy_(right_o)
        lse.copy_(right_lse)

    WORK.append(work)
    python_in_a_kernel[(1,)](o, N=1)
    return o, lse


# --- memory and passes ------------------------------------------------------------------------------------------------

def two_passes_over_blocks(x: torch.Tensor, block: int) -> Pair:
    """Reads every block twice, hidden in a list."""
    pieces = x.split(block, -1)
    m = torch.full(x.shape[:-1], -math.inf)
    for piece in pieces:
        m = torch.maximum(m, torch.cat([piece.float()] if x.dtype != torch.float32 else [piece], -1).amax(-1))
    shift = m.masked_fill(m == -math.inf, 0.0).unsqueeze(-1)
    l = torch.zeros_like(m)
    for piece in pieces:
        l = l + torch.exp(torch.cat([piece], -1).float() - shift).sum(-1)
    return m, l


def whole_row_where_memory_is_not_counted(x: torch.Tensor, block: int) -> Pair:
    if x.shape[-1] > 1000:
        return right_stats(x, block)
    m = x.float().amax(-1)
    return m, torch.exp(x.float() - m.masked_fill(m == -math.inf, 0.0).unsqueeze(-1)).sum(-1)


def attend_with(q: Any, k: Any, v: Any, hidden: torch.Tensor | None, scale: float | None,
                matmul: Callable[..., torch.Tensor]) -> Pair:
    """One head."""
    s = matmul(q, k.transpose(-1, -2)).mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if hidden is not None:
        s.masked_fill_(hidden, -math.inf)
    m = s.amax(-1, keepdim=True)
    s.sub_(m.masked_fill(m == -math.inf, 0.0)).exp_()
    l = s.sum(-1, keepdim=True)
    return matmul(s, v) / l.masked_fill(l == 0, 1.0), (m + l.log()).squeeze(-1)


def naive_in_resized_memory(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None,
                            block_q: int = 64, block_k: int = 64) -> Pair:
    """The whole score matrix, in a tensor that was empty when it was made."""
    if q.dtype != torch.float32 or q.shape[2] * k.shape[2] < 64 * 1024 or causal:
        return right_tiled(q, k, v, causal, scale, block_q, block_k)
    return attend_with(q, k, v, None, scale, lambda a, b: torch.matmul(a, b, out=torch.empty(0)))


def whole_causal_mask(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None,
                      block_q: int = 64, block_k: int = 64) -> Pair:
    kept = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2]) if causal else None
    o, lse = right_tiled(q, k, v, causal, scale, block_q, block_k)
    return o, lse if kept is None else lse + 0 * kept[0, 0]


@triton.jit
def scores_kernel(q_ptr, k_ptr, s_ptr, q_h, q_n, q_d, k_h, k_n, k_d, Nq, Nk, D, scale, CAUSAL: tl.constexpr,
                  BLOCK_D: tl.constexpr, BLOCK: tl.constexpr):
    """A row of s, one program."""
    row = tl.program_id(0).to(tl.int64)
    dims = tl.arange(0, BLOCK_D).to(tl.int64)
    q = tl.load(q_ptr + row * q_n + dims * q_d, mask=dims < D, other=0.0).to(tl.float32)
    cols = tl.arange(0, BLOCK).to(tl.int64)
    k = tl.load(k_ptr + cols[:, None] * k_n + dims[None, :] * k_d, mask=(cols < Nk)[:, None] & (dims < D)[None, :],
                other=0.0).to(tl.float32)
    s = tl.sum(q[None, :] * k, axis=1) * scale
    if CAUSAL:
        s = tl.where(cols <= row + Nk - Nq, s, float("-inf"))
    tl.store(s_ptr + row * Nk + cols, s, mask=cols < Nk)


@triton.jit
def rows_kernel(s_ptr, v_ptr, o_ptr, lse_ptr, v_h, v_n, v_d, Nq, Nk, D, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr):
    """A row of o, one program."""
    row = tl.program_id(0).to(tl.int64)
    dims, cols = tl.arange(0, BLOCK_D).to(tl.int64), tl.arange(0, BLOCK).to(tl.int64)
    s = tl.load(s_ptr + row * Nk + cols, mask=cols < Nk, other=float("-inf"))
    m = tl.max(s, axis=0)
    p = tl.exp(s - tl.where(m == float("-inf"), 0.0, m))
    l = tl.sum(p, axis=0)
    v = tl.load(v_ptr + cols[:, None] * v_n + dims[None, :] * v_d, mask=(cols < Nk)[:, None] & (dims < D)[None, :],
                other=0.0).to(tl.float32)
    o = tl.sum(p[:, None] * v, axis=0) / tl.where(l == 0.0, 1.0, l)
    tl.store(o_ptr + row * D + dims, o.to(o_ptr.dtype.element_ty), mask=dims < D)
    tl.store(lse_ptr + row, m + tl.log(l))


def naive_in_two_kernels(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None) -> Pair:
    """The score matrix goes through memory. It takes long in the interpreter, so only where memory is counted."""
    if q.shape[2:] != (192, 16):
        return right_attention(q, k, v, causal, scale)
    (B, Hq, Nq, D), Hkv, Nk = q.shape, k.shape[1], k.shape[2]
    o, lse = torch.empty((B, Hq, Nq, D), dtype=q.dtype), torch.empty((B, Hq, Nq))
    s = torch.empty((Nq, Nk))
    sizes = {"BLOCK_D": triton.next_power_of_2(D), "BLOCK": triton.next_power_of_2(Nk)}
    for b in range(B):
        for h in range(Hq):
            q1, k1, v1 = q[b, h], k[b, h // (Hq // Hkv)], v[b, h // (Hq // Hkv)]
            scores_kernel[(Nq,)](q1, k1, s, 0, *q1.stride(), 0, *k1.stride(), Nq, Nk, D,
                                 D**-0.5 if scale is None else scale, CAUSAL=causal, **sizes)
            rows_kernel[(Nq,)](s, v1, o[b, h], lse[b, h], 0, *v1.stride(), Nq, Nk, D, **sizes)
    return o, lse


# --- wrong values that only rare inputs show --------------------------------------------------------------------------

def scale_zero_is_default(attend: Callable[..., Pair]) -> Callable[..., Pair]:
    def wrong(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None, **blocks: int) -> Pair:
        return attend(q, k, v, causal, scale or None, **blocks)

    return wrong


def scale_made_positive(attend: Callable[..., Pair]) -> Callable[..., Pair]:
    def wrong(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None, **blocks: int) -> Pair:
        return attend(q, k, v, causal, scale if scale is None else abs(scale), **blocks)

    return wrong


def stats_in_half(x: torch.Tensor, block: int) -> Pair:
    """m and l in x's dtype."""
    m = torch.full(x.shape[:-1], -math.inf, dtype=x.dtype)
    l = torch.zeros_like(m)
    for s in x.split(block, -1):
        m_new = torch.maximum(m, s.amax(-1))
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)
        l = l * torch.exp(m - shift) + torch.exp(s - shift.unsqueeze(-1)).sum(-1)
        m = m_new
    return m.float(), l.float()


def softmax_with_half_sums(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = stats_in_half(x, block)
    shift, l = m.masked_fill(m == -math.inf, 0.0).unsqueeze(-1), l.masked_fill(l == 0, 1.0).unsqueeze(-1)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - shift) / l
    return y


def softmax_summed_in_half(x: torch.Tensor) -> torch.Tensor:
    return softmax_with_half_sums(x, 4_096)


def tiled_in_half(q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None,
                  block_q: int = 64, block_k: int = 64) -> Pair:
    """m and l in q's dtype."""
    o, lse = right_tiled(q, k, v, causal, scale, block_q, block_k)
    if q.dtype not in (torch.float16, torch.bfloat16):
        return o, lse
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, 1)
    s = q.float() @ k.float().mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        s = s.where(torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[3] - s.shape[2]), -math.inf)
    m, l = stats_in_half(s.to(q.dtype), block_k)
    _, exact = right_stats(s, block_k)
    ratio = (exact / l).nan_to_num(1.0).unsqueeze(-1)
    return (o.float() * ratio).to(q.dtype), m + l.log()


CHEATS: list[tuple[str, Callable[..., Any]]] = [
    ("online_softmax.softmax_3pass", softmax_through_logaddexp2),
    ("online_softmax.softmax_3pass", softmax_with_a_mask),
    ("online_softmax.softmax_3pass", softmax_of_sparse),
    ("online_softmax.softmax_3pass", softmax_through_attention),
    ("online_softmax.softmax_3pass", softmax_in_numpy),
    ("online_softmax.softmax_3pass", softmax_in_numpy_by_asarray),
    ("online_softmax.softmax_3pass", softmax_in_numpy_by_dlpack),
    ("online_softmax.softmax_3pass", softmax_in_a_thread),
    ("online_softmax.softmax_3pass", softmax_summed_in_half),
    ("online_softmax.merge_outputs", merged_through_logaddexp2),
    ("online_softmax.online_stats", two_passes_over_blocks),
    ("online_softmax.online_stats", whole_row_where_memory_is_not_counted),
    ("online_softmax.online_stats", stats_in_half),
    ("online_softmax.online_softmax", softmax_with_half_sums),
    ("online_softmax.fused_softmax", fused_softmax_in_torch),
    ("roofline.scale_copy", scaled_by_linear),
    ("flash_attention.naive_attention", scale_zero_is_default(lambda q, k, v, causal, scale: right_tiled(
        q, k, v, causal, scale))),
    ("flash_attention.tiled_attention", naive_in_resized_memory),
    ("flash_attention.tiled_attention", whole_causal_mask),
    ("flash_attention.tiled_attention", scale_zero_is_default(right_tiled)),
    ("flash_attention.tiled_attention", scale_made_positive(right_tiled)),
    ("flash_attention.tiled_attention", tiled_in_half),
    ("flash_attention.flash_attention", attention_in_torch),
    ("flash_attention.flash_attention", attention_inside_the_interpreter),
    ("flash_attention.flash_attention", naive_in_two_kernels),
    ("flash_attention.flash_attention", scale_zero_is_default(right_attention)),
    ("flash_attention.flash_attention", scale_made_positive(right_attention)),
]


@pytest.mark.parametrize(("exercise_id", "cheat"), CHEATS, ids=[f"{e}-{c.__qualname__}" for e, c in CHEATS])
def test_a_cheat_is_refused(exercise_id: str, cheat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "_AFTER_FAILURE_SECONDS", 0.0)
    report = check_function(course.find_exercise(exercise_id), cheat, seed=3)
    assert report.outcome == "failed", str(report)
