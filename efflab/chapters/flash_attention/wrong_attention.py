"""Attention with one switch for each thing that people get wrong; with every switch at its default it is right.

`Whole` works on the score matrix at once, `Tiled` in tiles with a running maximum and sum. mistakes.py gives names
to the switches; the judge runs them to recognise what a learner's function returns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

Pair = tuple[torch.Tensor, torch.Tensor]
LN2 = math.log(2.0)


@dataclass(frozen=True, kw_only=True)
class Slips:
    """What both forms can get wrong.

    align: "bottom_right", "top_left", or "strict" (the diagonal is hidden too).
    heads: which head of k and v: "grouped" h // (Hq // Hkv), "modulo" h % Hkv, "divided" h // Hkv.
    scaling: "right", "missing" (1), "ignored" (always D**-0.5), "twice".
    fill: the score of a hidden key. guard: whether rows that see nothing are protected from -inf - (-inf) and 0 / 0.
    guard_division: False leaves out the second of these only.
    """

    align: str = "bottom_right"
    heads: str = "grouped"
    scaling: str = "right"
    fill: float = -math.inf
    guard: bool = True
    guard_division: bool = True

    def shared(self, x: torch.Tensor, Hq: int) -> torch.Tensor:
        """One key/value head for each query head, in float32."""
        h, Hkv = torch.arange(Hq, device=x.device), x.shape[1]
        index = {"grouped": h // (Hq // Hkv), "modulo": h % Hkv, "divided": (h // Hkv).clamp(max=Hkv - 1)}[self.heads]
        return x.float()[:, index]                                              # (B, Hq, Nk, D)

    def factor(self, D: int, given: float | None) -> float:
        scale = D**-0.5 if given is None else given
        return {"right": scale, "missing": 1.0, "ignored": D**-0.5, "twice": scale * scale}[self.scaling]

    def hide(self, s: torch.Tensor, i: torch.Tensor, j: torch.Tensor, shift: int) -> torch.Tensor:
        """The causal mask. shift: Nk - Nq."""
        shift = {"bottom_right": shift, "top_left": 0, "strict": shift - 1}[self.align]
        return s.masked_fill(j[None, :] > i[:, None] + shift, self.fill)

    def safe(self, m: torch.Tensor) -> torch.Tensor:
        return m.masked_fill(m == -math.inf, 0.0) if self.guard else m

    def divided(self, acc: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
        return acc / (l.masked_fill(l == 0, 1.0) if self.guard and self.guard_division else l)


@dataclass(frozen=True, kw_only=True)
class Whole(Slips):
    """The definition. axis: what the softmax runs over. subtract_max: whether the maximum is taken off before exp.
    lse_as: "natural", "base2", "without_max", "unscaled", or "input_dtype"."""

    axis: int = -1
    subtract_max: bool = True
    lse_as: str = "natural"

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                 scale: float | None = None) -> Pair:
        Hq, Nq, Nk, D = q.shape[1], q.shape[2], k.shape[2], q.shape[3]
        products = q.float() @ self.shared(k, Hq).mT
        if causal:
            i, j = torch.arange(Nq, device=q.device), torch.arange(Nk, device=q.device)
            products = self.hide(products, i, j, Nk - Nq)
        s = products * self.factor(D, scale)
        m = self.safe(s.amax(self.axis, keepdim=True))
        m = m if self.subtract_max else torch.zeros_like(m)
        p = torch.exp(s - m)
        l = p.sum(self.axis, keepdim=True)
        o = self.divided(p, l) @ self.shared(v, Hq)
        natural = (m + l.log()).expand(s.shape)[..., 0]
        lse = {"natural": natural, "base2": natural / LN2, "without_max": l.log().expand(s.shape)[..., 0],
               "unscaled": products.logsumexp(-1), "input_dtype": natural.to(q.dtype)}[self.lse_as]
        return o.to(q.dtype), lse


@dataclass(frozen=True, kw_only=True)
class Tiled(Slips):
    """FlashAttention-2's loops in float32.

    first_max: what the running maximum starts from. rescale_acc, rescale_l: whether the sums shrink as it grows.
    divide: "end", "inside" (at every tile), "never". tail: the ragged last tile is "masked", "counted" (its padding
    scores 0), "dropped". stop: where the causal loop ends: "right", "early" (at the first row's last key),
    "no_offset" (as if Nk = Nq), "never" (at Nk). diagonal: a tile that some rows see in part is "masked", "open",
    "skipped". base: "right", or "exp2" of scores that were never turned to powers of two. half_acc: the accumulator
    has the inputs' dtype. contiguous: strides are not looked at. lse_as: "natural", "base2", "mixed" (the maximum in
    powers of two, the sum's logarithm natural), "sum_only", "max_only". matmul: False computes products without
    PyTorch's matrix product, as a kernel does.
    """

    first_max: float = -math.inf
    rescale_acc: bool = True
    rescale_l: bool = True
    divide: str = "end"
    tail: str = "masked"
    stop: str = "right"
    diagonal: str = "masked"
    base: str = "right"
    half_acc: bool = False
    contiguous: bool = False
    lse_as: str = "natural"
    matmul: bool = True

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                 scale: float | None = None, block_q: int = 64, block_k: int = 64) -> Pair:
        if self.contiguous:
            q, k, v = as_if_contiguous(q), as_if_contiguous(k), as_if_contiguous(v)
        (B, Hq, Nq, D), dtype = q.shape, q.dtype
        q, k, v = q.float() * self.factor(D, scale), self.shared(k, Hq), self.shared(v, Hq)
        o = torch.zeros((B, Hq, Nq, D), dtype=dtype, device=q.device)
        lse = torch.zeros((B, Hq, Nq), device=q.device)
        for start in range(0, Nq, block_q):
            rows = torch.arange(start, min(start + block_q, Nq), device=q.device)
            acc, l, m = self._rows(q[:, :, rows], k, v, rows, Nq, causal, block_k, dtype)
            o[:, :, rows] = (self.divided(acc, l) if self.divide == "end" else acc).to(dtype)
            lse[:, :, rows] = self._lse(m, l).squeeze(-1)
        return o, lse

    def _rows(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, i: torch.Tensor, Nq: int, causal: bool,
              block_k: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One tile of queries i: (acc, l, m) after all its keys."""
        Nk = k.shape[2]
        m = q.new_full((*q.shape[:-1], 1), self.first_max)
        l, acc = torch.zeros_like(m), torch.zeros_like(q)
        k_end, shared = self._range(i, Nq, Nk, causal, block_k)
        for k_start in range(0, k_end, block_k):
            partly_seen = k_start < shared < k_start + block_k and causal
            if partly_seen and self.diagonal == "skipped":
                continue
            j = torch.arange(k_start, k_start + block_k, device=q.device)
            inside, at = j < Nk, j.clamp(max=Nk - 1)
            s = self._product(q, (k[:, :, at] * inside[:, None]).mT)            # padding is zeros, as kernels load it
            if self.tail != "counted":
                s = s.masked_fill(~inside, -math.inf)
            if causal and not (partly_seen and self.diagonal == "open"):
                s = self.hide(s, i, j, Nk - Nq)
            m_new = torch.maximum(m, s.amax(-1, keepdim=True))
            unit = LN2 if self.base == "exp2" else 1.0                          # exp2(x) = exp(x ln 2)
            p, alpha = torch.exp((s - self.safe(m_new)) * unit), torch.exp((m - self.safe(m_new)) * unit)
            l = l * (alpha if self.rescale_l else 1.0) + p.sum(-1, keepdim=True)
            acc = acc * (alpha if self.rescale_acc else 1.0) + self._product(p, v[:, :, at] * inside[:, None])
            acc = acc.to(dtype).float() if self.half_acc else acc
            acc = self.divided(acc, l) if self.divide == "inside" else acc
            m = m_new
        return acc, l, m

    def _product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b if self.matmul else (a.unsqueeze(-2) * b.mT.unsqueeze(-3)).sum(-1)

    def _range(self, i: torch.Tensor, Nq: int, Nk: int, causal: bool, block_k: int) -> tuple[int, int]:
        """Where the loop over keys ends, and how many keys every row of the tile sees."""
        first, last = int(i[0]), int(i[-1])
        k_end, shared = Nk, Nk
        if causal:
            end = {"right": last + 1 + Nk - Nq, "early": first + 1 + Nk - Nq, "no_offset": last + 1, "never": Nk}
            k_end, shared = max(0, min(Nk, end[self.stop])), max(0, min(Nk, first + 1 + Nk - Nq))
        return (k_end // block_k * block_k if self.tail == "dropped" else k_end), shared

    def _lse(self, m: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
        return {"natural": m + l.log(), "base2": (m + l.log()) / LN2, "mixed": m / LN2 + l.log(),
                "sum_only": l.log(), "max_only": m}[self.lse_as]


def as_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that was given x's address and assumed its strides."""
    memory = x.as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    where = torch.arange(x.numel(), device=x.device).add(int(x.storage_offset()))
    return memory[where.clamp(max=memory.numel() - 1)].view(x.shape)
