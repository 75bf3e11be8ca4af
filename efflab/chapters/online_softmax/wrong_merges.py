"""Wrong answers to merge_stats and merge_outputs."""

from __future__ import annotations

import torch

from efflab.chapters.online_softmax.wrong_common import Pair, finite
from efflab.checking import Mistake


def _sums_added(a: Pair, b: Pair) -> Pair:
    return torch.maximum(a[0], b[0]), a[1] + b[1]


def _factors_swapped(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    return m, a[1] * torch.exp(b[0] - finite(m)) + b[1] * torch.exp(a[0] - finite(m))


def _no_guard_merge(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    return m, a[1] * torch.exp(a[0] - m) + b[1] * torch.exp(b[0] - m)


def _relative_to_a(a: Pair, b: Pair) -> Pair:
    return torch.maximum(a[0], b[0]), a[1] + b[1] * torch.exp(b[0] - finite(a[0]))


def _undoes_the_shift(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    total = a[1] * torch.exp(a[0]) + b[1] * torch.exp(b[0])
    return m, total * torch.exp(-finite(m))


def _adds_into_a(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    a[1].mul_(torch.exp(a[0] - finite(m))).add_(b[1] * torch.exp(b[0] - finite(m)))
    return m, a[1]


MERGE_STATS = (
    Mistake(name="sums_added", sentence="the two sums are added although each is relative to its own maximum",
            function=_sums_added),
    Mistake(name="factors_swapped", sentence="each sum is rescaled with the other one's maximum",
            function=_factors_swapped),
    Mistake(name="no_guard", sentence="both pieces are empty, and -inf - (-inf) is NaN", function=_no_guard_merge),
    Mistake(name="relative_to_a", sentence="the sum stays relative to the first maximum when the second is larger",
            function=_relative_to_a),
    Mistake(name="undoes_the_shift", sentence="both sums are brought back to plain exp(x), which overflows and "
            "underflows: the shift was there to avoid that", function=_undoes_the_shift),
    Mistake(name="adds_into_a", sentence="the result is written into a", function=_adds_into_a, caught_by="in_place"),
)


def _merged_lse(lse1: torch.Tensor, lse2: torch.Tensor) -> torch.Tensor:
    m = torch.maximum(lse1, lse2)
    return m + torch.log(torch.exp(lse1 - finite(m)) + torch.exp(lse2 - finite(m)))


def _weighted(o1: torch.Tensor, w1: torch.Tensor, o2: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return (o1.float() * w1[..., None] + o2.float() * w2[..., None]).to(o1.dtype)


def _plain_average(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    half = torch.full_like(lse1, 0.5)
    return _weighted(o1, half, o2, half), _merged_lse(lse1, lse2)


def _weights_swapped(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    lse = _merged_lse(lse1, lse2)
    return _weighted(o1, torch.exp(lse2 - finite(lse)), o2, torch.exp(lse1 - finite(lse))), lse


def _exp_of_lse(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    w1, w2 = torch.exp(lse1), torch.exp(lse2)
    total = w1 + w2
    return _weighted(o1, w1 / total, o2, w2 / total), torch.log(total)


def _not_divided(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = finite(torch.maximum(lse1, lse2))
    return _weighted(o1, torch.exp(lse1 - m), o2, torch.exp(lse2 - m)), _merged_lse(lse1, lse2)


def _lse_added(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    lse = finite(_merged_lse(lse1, lse2))
    return _weighted(o1, torch.exp(lse1 - lse), o2, torch.exp(lse2 - lse)), lse1 + lse2


def _base_two(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = torch.maximum(lse1, lse2)
    lse = m + torch.log2(torch.exp2(lse1 - finite(m)) + torch.exp2(lse2 - finite(m)))
    return _weighted(o1, torch.exp2(lse1 - finite(lse)), o2, torch.exp2(lse2 - finite(lse))), lse


def _no_guard_outputs(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = torch.maximum(lse1, lse2)
    w1, w2 = torch.exp(lse1 - m), torch.exp(lse2 - m)
    return _weighted(o1, w1 / (w1 + w2), o2, w2 / (w1 + w2)), m + torch.log(w1 + w2)


def _empty_share(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = finite(torch.maximum(lse1, lse2))
    w1, w2 = torch.exp(lse1 - m), torch.exp(lse2 - m)
    return _weighted(o1, w1 / (w1 + w2), o2, w2 / (w1 + w2)), m + torch.log(w1 + w2)


MERGE_OUTPUTS = (
    Mistake(name="plain_average", sentence="the two outputs are averaged; the weights are how much of the whole sum "
            "each piece holds", function=_plain_average),
    Mistake(name="weights_swapped", sentence="each output gets the other one's weight", function=_weights_swapped),
    Mistake(name="exp_of_lse", sentence="exp(lse) is taken as it stands: at 1e4 it overflows, at -1e4 it is 0 / 0",
            function=_exp_of_lse),
    Mistake(name="not_divided", sentence="the weights are relative to the larger lse and do not sum to 1",
            function=_not_divided),
    Mistake(name="lse_added", sentence="lse1 and lse2 are added: what adds up is the sums, not their logarithms",
            function=_lse_added),
    Mistake(name="base_two", sentence="exp2 and log2 are used on natural logarithms", function=_base_two),
    Mistake(name="no_guard", sentence="both pieces are empty, and -inf - (-inf) is NaN", function=_no_guard_outputs),
    Mistake(name="empty_share", sentence="neither piece saw a key and the shares are 0 / 0; the exponents are guarded, "
            "the division is not", function=_empty_share),
)
