"""What the exercises of chapter 03 must return, from the definition over the whole row: no blocks, nothing running.

Inputs arrive in float64. x: (..., N). m, l: (...), maximum and sum of exp(x - m), (-inf, 0) for a row of only -inf.
"""

from __future__ import annotations

from typing import Any

import torch

NEVER = float("-inf")
Pair = tuple[torch.Tensor, torch.Tensor]


def stats_reference(x: torch.Tensor, block: int = 0) -> Pair:
    m = x.amax(-1)
    centre = torch.where(m == NEVER, torch.zeros_like(m), m)
    return m, (x - centre[..., None]).exp().sum(-1)


def softmax_reference(x: torch.Tensor, block: int = 0) -> torch.Tensor:
    m, l = stats_reference(x)
    e = (x - torch.where(m == NEVER, torch.zeros_like(m), m)[..., None]).exp()
    return e / torch.where(l == 0, torch.ones_like(l), l)[..., None]


def softmax_baseline(x: torch.Tensor, block: int = 0) -> torch.Tensor:
    """PyTorch's own, whose error at this dtype sets the tolerance; NaN in rows of only -inf, which do not count."""
    return torch.softmax(x, dim=-1)


def stats_baseline(x: torch.Tensor, block: int = 0) -> Pair:
    return stats_reference(x.float())


def merge_stats_reference(a: Pair, b: Pair) -> Pair:
    """Through the logarithm of each sum: log l + m is the piece's logsumexp."""
    m = torch.maximum(a[0], b[0])
    centre = torch.where(m == NEVER, torch.zeros_like(m), m)
    return m, (a[1].log() + a[0] - centre).exp() + (b[1].log() + b[0] - centre).exp()


def merge_outputs_reference(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    """The share of each piece is a softmax over two numbers."""
    lses = torch.stack([lse1, lse2], dim=-1)                                      # (..., 2)
    share = softmax_reference(lses)
    o = o1 * share[..., 0, None] + o2 * share[..., 1, None]
    m, l = stats_reference(lses)
    return o, m + l.log()


def tree_expected(m: torch.Tensor, l: torch.Tensor, order: Any) -> Pair:
    """All pieces at once, whatever the order."""
    top = m.amax(0)
    centre = torch.where(top == NEVER, torch.zeros_like(top), top)
    return top, (l * (m - centre).exp()).sum(0)
