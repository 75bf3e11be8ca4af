"""Wrong answers to online_stats."""

from __future__ import annotations

import torch

from efflab.chapters.online_softmax.wrong_common import NEVER, Pair, blocks, finite, right_stats
from efflab.checking import Mistake


def _no_rescale(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m = torch.maximum(m, s.amax(-1))
        l = l + torch.exp(s - finite(m)[..., None]).sum(-1)
    return m, l


def _rescales_upwards(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        grow = torch.exp(finite(m_new) - finite(m))
        l = l * grow + torch.exp(s - finite(m_new)[..., None]).sum(-1)
        m = m_new
    return m, l


def _blocks_own_max(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        here = s.amax(-1)
        m_new = torch.maximum(m, here)
        l = l * torch.exp(m - finite(m_new)) + torch.exp(s - finite(here)[..., None]).sum(-1)
        m = m_new
    return m, l


def _no_guard(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _starts_at_zero(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.zeros(x.shape[:-1], device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _starts_very_low(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], -1e30, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _drops_the_tail(x: torch.Tensor, block: int) -> Pair:
    return right_stats(x[..., :x.shape[-1] // block * block], block)


def _reads_twice(x: torch.Tensor, block: int) -> Pair:
    m = torch.full(x.shape[:-1], NEVER, device=x.device)
    for s in blocks(x, block):
        m = torch.maximum(m, s.amax(-1))
    l = torch.zeros_like(m)
    for s in blocks(x, block):
        l = l + torch.exp(s - finite(m)[..., None]).sum(-1)
    return m, l


def _all_at_once(x: torch.Tensor, block: int) -> Pair:
    m = x.float().amax(-1)
    return m, torch.exp(x.float() - finite(m)[..., None]).sum(-1)


ONLINE_STATS = (
    Mistake(name="no_rescale", sentence="the running sum is not rescaled when the maximum grows: its older terms are "
            "relative to an older maximum", function=_no_rescale),
    Mistake(name="rescales_upwards", sentence="the rescale factor is turned round: it is exp(m_old - m_new), at most 1",
            function=_rescales_upwards),
    Mistake(name="blocks_own_max", sentence="each block's sum is relative to the block's own maximum and is added as "
            "it is; it has to be relative to the running one", function=_blocks_own_max),
    Mistake(name="no_guard", sentence="-inf - (-inf) is computed before anything finite was seen, and that is NaN",
            function=_no_guard),
    Mistake(name="starts_at_zero", sentence="the running maximum starts at 0, so a row of negative numbers never "
            "shows its own", function=_starts_at_zero),
    Mistake(name="starts_very_low", sentence="the running maximum starts at a very low number instead of -inf, and an "
            "empty row keeps it", function=_starts_very_low),
    Mistake(name="drops_the_tail", sentence="the last, shorter block is left out", function=_drops_the_tail),
    Mistake(name="reads_twice", sentence="the row is read twice: first for its maximum, then for its sum",
            function=_reads_twice),
    Mistake(name="all_at_once", sentence="exp(x - m) is made for the whole row at once", function=_all_at_once,
            caught_by="limit"),
)
