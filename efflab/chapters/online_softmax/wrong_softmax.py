"""Wrong answers to softmax_3pass and online_softmax."""

from __future__ import annotations

import torch

from efflab.chapters.online_softmax.wrong_common import finite, right_stats
from efflab.checking import Mistake


def _no_max(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def _one_max_for_all(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float() - x.float().max())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def _first_axis(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float() - x.float().amax(0, keepdim=True))
    return (e / e.sum(0, keepdim=True)).to(x.dtype)


def _sum_not_shifted(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
    return (e / torch.exp(x.float()).sum(-1, keepdim=True)).to(x.dtype)


def _sum_of_all(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
    return (e / e.sum()).to(x.dtype)


def _shifts_x_itself(x: torch.Tensor) -> torch.Tensor:
    m = x.amax(-1, keepdim=True)
    x -= m
    e = torch.exp(x.float())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def _calls_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)


SOFTMAX_3PASS = (
    Mistake(name="no_max", sentence="the row's maximum is not subtracted: exp passes the largest float above 88.7, "
            "and is 0 everywhere below -104", function=_no_max),
    Mistake(name="one_max_for_all", sentence="the maximum of the whole tensor is subtracted from every row, so rows "
            "far below it become 0 / 0", function=_one_max_for_all),
    Mistake(name="first_axis", sentence="maximum and sum run down the first axis instead of along the last",
            function=_first_axis),
    Mistake(name="sum_not_shifted", sentence="the maximum is subtracted in the numerator and not in the sum",
            function=_sum_not_shifted),
    Mistake(name="sum_of_all", sentence="one sum over all rows divides every row", function=_sum_of_all),
    Mistake(name="shifts_x_itself", sentence="x itself is shifted, in place", function=_shifts_x_itself,
            caught_by="in_place"),
    Mistake(name="calls_softmax", sentence="torch.softmax does the work", function=_calls_softmax,
            caught_by="forbidden"),
)


def _empty_rows_nan(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = right_stats(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - m[..., None]) / l[..., None]
    return y


def _per_block(x: torch.Tensor, block: int) -> torch.Tensor:
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        piece = x[..., start:start + block]
        m, l = right_stats(piece, block)
        y[..., start:start + block] = torch.exp(piece.float() - finite(m)[..., None]) / l.clamp_min(1e-30)[..., None]
    return y


def _no_shift(x: torch.Tensor, block: int) -> torch.Tensor:
    _, l = right_stats(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float()) / l.clamp_min(1e-30)[..., None]
    return y


def _l_as_logarithm(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = right_stats(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - (finite(m) + l)[..., None])
    return y


def _sum_never_used(x: torch.Tensor, block: int) -> torch.Tensor:
    m, _ = right_stats(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - finite(m)[..., None])
    return y


def _second_pass_at_once(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = right_stats(x, block)
    return (torch.exp(x.float() - finite(m)[..., None]) / l.masked_fill(l == 0, 1.0)[..., None]).to(x.dtype)


def _calls_softmax_online(x: torch.Tensor, block: int) -> torch.Tensor:
    return torch.softmax(x, dim=-1).nan_to_num(0.0)


ONLINE_SOFTMAX = (
    Mistake(name="empty_rows_nan", sentence="a row of nothing but -inf is computed as exp(-inf - (-inf)) / 0",
            function=_empty_rows_nan),
    Mistake(name="per_block", sentence="every block is normalised by itself, so a row sums to its number of blocks",
            function=_per_block),
    Mistake(name="no_shift", sentence="exp(x) is divided by l, which is the sum of exp(x - m)", function=_no_shift),
    Mistake(name="l_as_logarithm", sentence="exp(x - (m + l)) is computed; the logarithm of l was meant",
            function=_l_as_logarithm),
    Mistake(name="sum_never_used", sentence="the division by l is missing: the largest element of each row is 1",
            function=_sum_never_used),
    Mistake(name="second_pass_at_once", sentence="the second pass makes exp(x - m) for the whole row at once",
            function=_second_pass_at_once, caught_by="limit"),
    Mistake(name="calls_softmax", sentence="torch.softmax does the work", function=_calls_softmax_online,
            caught_by="forbidden"),
)
