"""Wrong answers to fused_softmax, in plain PyTorch: what a kernel with the fault would write."""

from __future__ import annotations

import torch

from efflab.chapters.online_softmax.wrong_common import finite
from efflab.checking import Mistake

# In plain PyTorch: what a kernel with the fault would write.

def _block_n(x: torch.Tensor) -> int:
    return 1 << max(0, x.shape[-1] - 1).bit_length()


def _normalised(s: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
    m = finite(s.amax(-1, keepdim=True))
    return torch.exp(s - m) / l.masked_fill(l == 0, 1.0)


def _padding_counted(x: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(x.float(), (0, _block_n(x) - x.shape[-1]))       # other=0.0
    m = padded.amax(-1, keepdim=True)
    e = torch.exp(padded - m)
    return (e / e.sum(-1, keepdim=True))[..., :x.shape[-1]].to(x.dtype)


def _no_max_kernel(x: torch.Tensor) -> torch.Tensor:
    e = torch.exp(x.float())
    l = e.sum(-1, keepdim=True)
    return (e / l.masked_fill(l == 0, 1.0)).to(x.dtype)


def _rows_packed(x: torch.Tensor) -> torch.Tensor:
    """Row m starts at m * N, whatever the stride."""
    index = torch.arange(x.numel(), device=x.device).view(x.shape)
    flat = x.as_strided((1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)),), (1,))
    s = flat[index.clamp_max(flat.numel() - 1)].float()
    return _normalised(s, torch.exp(s - finite(s.amax(-1, keepdim=True))).sum(-1, keepdim=True)).to(x.dtype)


def _first_block_only(x: torch.Tensor) -> torch.Tensor:
    head = x[..., :1024].float()
    l = torch.exp(head - finite(head.amax(-1, keepdim=True))).sum(-1, keepdim=True)
    y = torch.full_like(x, float("nan"))
    y[..., :1024] = _normalised(head, l).to(x.dtype)
    return y


def _empty_rows_nan_kernel(x: torch.Tensor) -> torch.Tensor:
    s = x.float()
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def _sum_in_input_dtype(x: torch.Tensor) -> torch.Tensor:
    s = x.float()
    l = torch.exp(s - finite(s.amax(-1, keepdim=True))).to(x.dtype).sum(-1, keepdim=True, dtype=x.dtype)
    return _normalised(s, l.float()).to(x.dtype)


def _copies_first(x: torch.Tensor) -> torch.Tensor:
    s = x.contiguous().float()
    return _normalised(s, torch.exp(s - finite(s.amax(-1, keepdim=True))).sum(-1, keepdim=True)).to(x.dtype)


FUSED_SOFTMAX = (
    Mistake(name="padding_counted", sentence="the block is filled up with 0 past the end of the row: the padding takes "
            "part in the maximum and in the sum; other=-inf leaves no trace in either", function=_padding_counted),
    Mistake(name="no_max", sentence="the row's maximum is not subtracted before exp", function=_no_max_kernel),
    Mistake(name="rows_packed", sentence="row m is read at m * N; it starts at m * x.stride(0)", function=_rows_packed),
    Mistake(name="first_block_only", sentence="only the first 1,024 columns are computed and stored: BLOCK_N must "
            "cover the row, or a loop must", function=_first_block_only),
    Mistake(name="empty_rows_nan", sentence="a row of nothing but -inf is computed as exp(-inf - (-inf)) / 0",
            function=_empty_rows_nan_kernel),
    Mistake(name="sum_in_input_dtype", sentence="the sum is kept in the input's own dtype: float16 ends at 65,504",
            function=_sum_in_input_dtype),
    Mistake(name="copies_first", sentence="x is copied before the kernel runs, which costs what the kernel saves",
            function=_copies_first, caught_by="limit"),
)
