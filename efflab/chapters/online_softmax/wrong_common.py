"""What the wrong answers share: the parts that they get right."""

from __future__ import annotations

from collections.abc import Iterator

import torch

NEVER = float("-inf")
Pair = tuple[torch.Tensor, torch.Tensor]


def finite(m: torch.Tensor) -> torch.Tensor:
    """0 where nothing was seen, so that -inf - (-inf) does not happen."""
    return m.masked_fill(m == NEVER, 0.0)


def blocks(x: torch.Tensor, block: int) -> Iterator[torch.Tensor]:
    for start in range(0, x.shape[-1], block):
        yield x[..., start:start + block].float()


def right_stats(x: torch.Tensor, block: int) -> Pair:
    """Right statistics, for mistakes that come after them."""
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - finite(m_new)) + torch.exp(s - finite(m_new)[..., None]).sum(-1)
        m = m_new
    return m, l
