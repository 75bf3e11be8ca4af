"""What chapter 04 asks, and how it is checked.

The reference is the definition in float64. Shapes and letters are the course's: q (B, Hq, Nq, D), k and v
(B, Hkv, Nk, D), o like q, lse (B, Hq, Nq) in float32 and natural logarithm, causal aligned bottom-right.
"""

from __future__ import annotations

from functools import partial

import torch

from efflab.chapters.flash_attention import mistakes
from efflab.chapters.flash_attention.cases import kernel_cases, naive_cases, tiled_cases, traffic_cases
from efflab.chapters.flash_attention.measures import BARS, CURVES, XRAYS_FAST, XRAYS_PLAIN
from efflab.checking import ALL_BUT_MAKING_AND_COPIES, ATTENTION, SOFTMAX, Exercise, Forbidden, Kernel, Output

Pair = tuple[torch.Tensor, torch.Tensor]

# --- References -------------------------------------------------------------------------------------------------------


def attention_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                        scale: float | None = None, block_q: int = 0, block_k: int = 0) -> Pair:
    """The definition, in the inputs' dtype. block_q, block_k: how to get there, which changes nothing."""
    o, lse = _attend(q, k, v, causal, scale, q.dtype)
    return o, lse if q.dtype == torch.float64 else lse.float()


def attention_baseline(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                       scale: float | None = None, block_q: int = 0, block_k: int = 0) -> Pair:
    """What a careful PyTorch program gives at this dtype: scores and sums in float32, p in the inputs' dtype."""
    return _attend(q.float(), k.float(), v.float(), causal, scale, q.dtype)


def naive_baseline(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                   scale: float | None = None) -> Pair:
    """At the inputs' dtype, by p = exp(s - lse): short, and it rounds at the size of lse where scores are large."""
    Nq, Nk, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    s = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones((Nq, Nk), dtype=torch.bool, device=q.device).triu(Nk - Nq + 1)
        s = s.masked_fill(hidden, -torch.inf)
    lse = s.logsumexp(-1, keepdim=True)
    return torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)) @ v, lse.squeeze(-1).float()


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None,
            dtype: torch.dtype) -> Pair:
    Nq, D, Nk, group = q.shape[2], q.shape[3], k.shape[2], q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)                 # (B, Hq, Nk, D)
    s = torch.einsum("bhid,bhjd->bhij", q, k) * (D**-0.5 if scale is None else scale)
    seen = torch.ones((Nq, Nk), dtype=torch.bool, device=q.device)
    seen = seen.tril(Nk - Nq) if causal else seen
    m = s.where(seen, -torch.inf).amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)    # finite: nothing - m
    p = torch.exp(s - m).where(seen, 0)                                                         # is never inf - inf
    l = p.sum(-1, keepdim=True)
    o = torch.einsum("bhij,bhjd->bhid", p.to(dtype).to(p.dtype), v) / l.clamp(min=torch.finfo(s.dtype).tiny)
    lse = (m + l.log()).where(l > 0, -torch.inf)
    return o.to(dtype), lse.squeeze(-1)


def traffic_reference(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str) -> int:
    """Every transfer, one after another."""
    rows = [min(block_q, Nq - at) for at in range(0, Nq, block_q)]
    cols = [min(block_k, Nk - at) for at in range(0, Nk, block_k)]
    moved = 0
    if algorithm == "naive":
        moved += Nq * D + Nk * D + Nq * Nk          # q and k in, S out
        moved += Nq * Nk + Nq * Nk                  # S in, P out
        moved += Nq * Nk + Nk * D + Nq * D          # P and v in, o out
    elif algorithm == "fa1":
        for c in cols:
            moved += 2 * c * D                      # a tile of k and of v in
            for r in rows:
                moved += r * D + r * D + 2 * r      # q, o, m, l in
                moved += r * D + 2 * r              # o, m, l out
    elif algorithm == "fa2":
        for r in rows:
            moved += r * D                          # a tile of q in
            moved += sum(2 * c * D for c in cols)   # all of k and v in
            moved += r * D + r                      # o and lse out
    return moved


# --- Exercises --------------------------------------------------------------------------------------------------------

PAIR = (Output("o", "q"), Output("lse", torch.float32))
IN_THE_KERNEL = Forbidden(operators=ALL_BUT_MAKING_AND_COPIES,
                          instead="All arithmetic belongs into the kernel, the products as tl.dot(q, k.T) and "
                          "tl.dot(p, v); outside it only make o and lse, and launch.")
exercise = partial(Exercise, chapter="flash_attention")

EXERCISES = (
    exercise(
        name="naive_attention", summary="Attention by its definition, with the whole score matrix in memory.",
        reference=attention_reference, baseline=naive_baseline, cases=naive_cases, outputs=PAIR,
        mistakes=mistakes.NAIVE, points=6, minutes=20, difficulty="easy",
        forbidden=Forbidden(operators=ATTENTION, instead="Write out scores, mask, softmax and sum; PyTorch's "
                            "scaled_dot_product_attention would hide what this chapter is about."),
        hints=(
            "Group the query heads: q as (B, Hkv, Hq // Hkv, Nq, D) meets k as (B, Hkv, 1, Nk, D), and nothing is "
            "copied.",
            "Query i sees keys j <= i + Nk - Nq. Take i as a column and j as a row of torch.arange, and fill hidden "
            "scores with -inf.",
            "lse = s.logsumexp(-1) and p = exp(s - lse). A row that sees nothing has lse = -inf: subtract 0 there "
            "instead, and p becomes exp(-inf) = 0.")),
    exercise(
        name="tiled_attention", summary="The same in tiles, with a running maximum and sum: nothing of size Nq x Nk.",
        reference=attention_reference, baseline=attention_baseline, cases=tiled_cases, outputs=PAIR,
        mistakes=mistakes.TILED, points=10, minutes=35, difficulty="medium",
        forbidden=Forbidden(operators=(*ATTENTION, *SOFTMAX),
                            instead="Keep m, l and acc yourself and fold in one tile of keys after another."),
        hints=(
            "Outside: tiles of queries. Inside: tiles of keys. m, l and acc belong to one tile of queries and start at "
            "-inf, 0 and 0.",
            "For each tile of keys: m_new = max(m, max of s); p = exp(s - m_new); alpha = exp(m - m_new); then "
            "l = l * alpha + sum(p) and acc = acc * alpha + p @ v.",
            "Where m_new is still -inf subtract 0 instead. After the loop o = acc / l (divide by 1 where l is 0) and "
            "lse = m + log(l). Causal: the tile's last row, q_stop - 1, sees keys up to q_stop - 1 + Nk - Nq; the loop "
            "ends there.")),
    exercise(
        name="hbm_traffic", summary="Count the elements that cross between the chip and its memory.",
        reference=traffic_reference, cases=traffic_cases, outputs=(Output("elements"),), mistakes=mistakes.TRAFFIC,
        points=6, minutes=15, difficulty="easy",
        hints=(
            "Take the loops of each algorithm and write beside every line what it reads and what it writes.",
            "fa1: for each tile of keys, k and v come in once; then for all Nq queries q comes in, and o, m, l come in "
            "and go out. fa2: for each tile of queries, all of k and v come in.",
            "Round the number of tiles up. naive: q, k in, S out; S in, P out; P, v in, o out. m, l and lse are one "
            "number a row.")),
    exercise(
        name="flash_attention", summary="The tiles in one Triton kernel, one program for each tile of queries.",
        reference=attention_reference, baseline=attention_baseline, cases=kernel_cases, outputs=PAIR,
        mistakes=mistakes.KERNEL, points=16, minutes=60, difficulty="hard", forbidden=IN_THE_KERNEL,
        kernel=Kernel(xrays=XRAYS_PLAIN),
        hints=(
            "The body is tiled_attention's inner loop for one tile of queries. Start with the pointers: base "
            "+ b * stride_b + h * stride_h + rows[:, None] * stride_n + dims[None, :] * stride_d.",
            "Mask every load (rows < Nq, cols < Nk, dims < D, other=0.0), and after the product set padded and hidden "
            "scores to -inf with tl.where: zeros in k give a score of 0, which is not -inf.",
            "For each tile: s = tl.dot(q, k.T, input_precision=PRECISION) * scale; m_new, p, alpha and l as before; "
            "acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision=PRECISION). Keep cols in int64.")),
    exercise(
        name="flash_attention_fast", summary="The same contract, tuned: split loops, exp2, launch order, tiles by GPU.",
        reference=attention_reference, baseline=attention_baseline, cases=kernel_cases, outputs=PAIR,
        mistakes=mistakes.FAST, points=12, minutes=75, difficulty="hard", forbidden=IN_THE_KERNEL,
        kernel=Kernel(xrays=XRAYS_FAST, bars=BARS),
        hints=(
            "Split the loop over keys in two: whole tiles that every row sees, without any mask, then the rest with "
            "it. The border is the first row's last key, rounded down to a multiple of BLOCK_K.",
            "exp(scale * s - m) = exp2(scale * log2(e) * s - m2) with m2 = m * log2(e): fold the constant into the "
            "scale, keep the maximum in powers of two, and at the end lse = m2 * ln(2) + log(l).",
            "Under the causal mask the last tile of queries has the most work: let program 0 take it, so that the "
            "short ones fill the end.")),
)

__all__ = ["CURVES", "EXERCISES", "attention_baseline", "attention_reference", "traffic_reference"]
