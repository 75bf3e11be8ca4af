"""Wrong answers to the first exercise."""

from __future__ import annotations

import torch

from efflab.checking import Mistake


def _no_root(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean(dim=-1).to(x.dtype)


def _mean_magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.float().abs().mean(dim=-1).to(x.dtype)


def _sum_not_mean(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().sum(dim=-1).sqrt().to(x.dtype)


def _standard_deviation(x: torch.Tensor) -> torch.Tensor:
    return x.float().std(dim=-1, correction=0).to(x.dtype)


def _first_axis(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean(dim=0).sqrt().to(x.dtype)


def _squares_in_half(x: torch.Tensor) -> torch.Tensor:
    return x.square().mean(dim=-1).sqrt()


RMS = (
    Mistake(name="no_root", sentence="the square root is missing", function=_no_root),
    Mistake(name="mean_magnitude", sentence="the absolute values are averaged instead of the squares",
            function=_mean_magnitude),
    Mistake(name="sum_not_mean", sentence="the squares are summed and not averaged", function=_sum_not_mean),
    Mistake(name="standard_deviation", sentence="the mean is subtracted first, which gives the standard deviation",
            function=_standard_deviation),
    Mistake(name="first_axis", sentence="the mean runs over the first axis instead of the last", function=_first_axis),
    Mistake(name="squares_in_half", sentence="the squares are kept in float16, which ends at 65,504",
            function=_squares_in_half),
)
