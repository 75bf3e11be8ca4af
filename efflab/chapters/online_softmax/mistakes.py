"""Wrong answers that people really give, in the order of the exercises. Each is refused by a case in checks.py.

x: (..., N), softmax along the last axis. m, l: running maximum and running sum of exp(x - m), (...).
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from efflab.checking import Mistake

NEVER = float("-inf")
Pair = tuple[torch.Tensor, torch.Tensor]


def _finite(m: torch.Tensor) -> torch.Tensor:
    """0 where nothing was seen, so that -inf - (-inf) does not happen."""
    return m.masked_fill(m == NEVER, 0.0)


def _blocks(x: torch.Tensor, block: int) -> Iterator[torch.Tensor]:
    for start in range(0, x.shape[-1], block):
        yield x[..., start:start + block].float()


# --- softmax_3pass ------------------------------------------------------------------------------------------------

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


# --- online_stats -------------------------------------------------------------------------------------------------

def _no_rescale(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m = torch.maximum(m, s.amax(-1))
        l = l + torch.exp(s - _finite(m)[..., None]).sum(-1)
    return m, l


def _rescales_upwards(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        grow = torch.exp(_finite(m_new) - _finite(m))
        l = l * grow + torch.exp(s - _finite(m_new)[..., None]).sum(-1)
        m = m_new
    return m, l


def _blocks_own_max(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        here = s.amax(-1)
        m_new = torch.maximum(m, here)
        l = l * torch.exp(m - _finite(m_new)) + torch.exp(s - _finite(here)[..., None]).sum(-1)
        m = m_new
    return m, l


def _no_guard(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _starts_at_zero(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.zeros(x.shape[:-1], device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _starts_very_low(x: torch.Tensor, block: int) -> Pair:
    m, l = torch.full(x.shape[:-1], -1e30, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - m_new) + torch.exp(s - m_new[..., None]).sum(-1)
        m = m_new
    return m, l


def _drops_the_tail(x: torch.Tensor, block: int) -> Pair:
    return _right(x[..., :x.shape[-1] // block * block], block)


def _reads_twice(x: torch.Tensor, block: int) -> Pair:
    m = torch.full(x.shape[:-1], NEVER, device=x.device)
    for s in _blocks(x, block):
        m = torch.maximum(m, s.amax(-1))
    l = torch.zeros_like(m)
    for s in _blocks(x, block):
        l = l + torch.exp(s - _finite(m)[..., None]).sum(-1)
    return m, l


def _all_at_once(x: torch.Tensor, block: int) -> Pair:
    m = x.float().amax(-1)
    return m, torch.exp(x.float() - _finite(m)[..., None]).sum(-1)


def _right(x: torch.Tensor, block: int) -> Pair:
    """Not a mistake: what the others build on."""
    m, l = torch.full(x.shape[:-1], NEVER, device=x.device), torch.zeros(x.shape[:-1], device=x.device)
    for s in _blocks(x, block):
        m_new = torch.maximum(m, s.amax(-1))
        l = l * torch.exp(m - _finite(m_new)) + torch.exp(s - _finite(m_new)[..., None]).sum(-1)
        m = m_new
    return m, l


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


# --- merge_stats --------------------------------------------------------------------------------------------------

def _sums_added(a: Pair, b: Pair) -> Pair:
    return torch.maximum(a[0], b[0]), a[1] + b[1]


def _factors_swapped(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    return m, a[1] * torch.exp(b[0] - _finite(m)) + b[1] * torch.exp(a[0] - _finite(m))


def _no_guard_merge(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    return m, a[1] * torch.exp(a[0] - m) + b[1] * torch.exp(b[0] - m)


def _relative_to_a(a: Pair, b: Pair) -> Pair:
    return torch.maximum(a[0], b[0]), a[1] + b[1] * torch.exp(b[0] - _finite(a[0]))


def _undoes_the_shift(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    total = a[1] * torch.exp(a[0]) + b[1] * torch.exp(b[0])
    return m, total * torch.exp(-_finite(m))


def _adds_into_a(a: Pair, b: Pair) -> Pair:
    m = torch.maximum(a[0], b[0])
    a[1].mul_(torch.exp(a[0] - _finite(m))).add_(b[1] * torch.exp(b[0] - _finite(m)))
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


# --- merge_outputs ------------------------------------------------------------------------------------------------

def _merged_lse(lse1: torch.Tensor, lse2: torch.Tensor) -> torch.Tensor:
    m = torch.maximum(lse1, lse2)
    return m + torch.log(torch.exp(lse1 - _finite(m)) + torch.exp(lse2 - _finite(m)))


def _weighted(o1: torch.Tensor, w1: torch.Tensor, o2: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    return (o1.float() * w1[..., None] + o2.float() * w2[..., None]).to(o1.dtype)


def _plain_average(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    half = torch.full_like(lse1, 0.5)
    return _weighted(o1, half, o2, half), _merged_lse(lse1, lse2)


def _weights_swapped(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    lse = _merged_lse(lse1, lse2)
    return _weighted(o1, torch.exp(lse2 - _finite(lse)), o2, torch.exp(lse1 - _finite(lse))), lse


def _exp_of_lse(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    w1, w2 = torch.exp(lse1), torch.exp(lse2)
    total = w1 + w2
    return _weighted(o1, w1 / total, o2, w2 / total), torch.log(total)


def _not_divided(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = _finite(torch.maximum(lse1, lse2))
    return _weighted(o1, torch.exp(lse1 - m), o2, torch.exp(lse2 - m)), _merged_lse(lse1, lse2)


def _lse_added(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    lse = _finite(_merged_lse(lse1, lse2))
    return _weighted(o1, torch.exp(lse1 - lse), o2, torch.exp(lse2 - lse)), lse1 + lse2


def _base_two(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = torch.maximum(lse1, lse2)
    lse = m + torch.log2(torch.exp2(lse1 - _finite(m)) + torch.exp2(lse2 - _finite(m)))
    return _weighted(o1, torch.exp2(lse1 - _finite(lse)), o2, torch.exp2(lse2 - _finite(lse))), lse


def _no_guard_outputs(o1: torch.Tensor, lse1: torch.Tensor, o2: torch.Tensor, lse2: torch.Tensor) -> Pair:
    m = torch.maximum(lse1, lse2)
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
)


# --- online_softmax -----------------------------------------------------------------------------------------------

def _empty_rows_nan(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = _right(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - m[..., None]) / l[..., None]
    return y


def _per_block(x: torch.Tensor, block: int) -> torch.Tensor:
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        piece = x[..., start:start + block]
        m, l = _right(piece, block)
        y[..., start:start + block] = torch.exp(piece.float() - _finite(m)[..., None]) / l.clamp_min(1e-30)[..., None]
    return y


def _no_shift(x: torch.Tensor, block: int) -> torch.Tensor:
    _, l = _right(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float()) / l.clamp_min(1e-30)[..., None]
    return y


def _l_as_logarithm(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = _right(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - (_finite(m) + l)[..., None])
    return y


def _sum_never_used(x: torch.Tensor, block: int) -> torch.Tensor:
    m, _ = _right(x, block)
    y = torch.empty_like(x)
    for start in range(0, x.shape[-1], block):
        y[..., start:start + block] = torch.exp(x[..., start:start + block].float() - _finite(m)[..., None])
    return y


def _second_pass_at_once(x: torch.Tensor, block: int) -> torch.Tensor:
    m, l = _right(x, block)
    return (torch.exp(x.float() - _finite(m)[..., None]) / l.masked_fill(l == 0, 1.0)[..., None]).to(x.dtype)


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


# --- fused_softmax ------------------------------------------------------------------------------------------------
# In plain PyTorch: what a kernel with the fault would write.

def _block_n(x: torch.Tensor) -> int:
    return 1 << max(0, x.shape[-1] - 1).bit_length()


def _normalised(s: torch.Tensor, l: torch.Tensor) -> torch.Tensor:
    m = _finite(s.amax(-1, keepdim=True))
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
    return _normalised(s, torch.exp(s - _finite(s.amax(-1, keepdim=True))).sum(-1, keepdim=True)).to(x.dtype)


def _first_block_only(x: torch.Tensor) -> torch.Tensor:
    head = x[..., :1024].float()
    l = torch.exp(head - _finite(head.amax(-1, keepdim=True))).sum(-1, keepdim=True)
    y = torch.full_like(x, float("nan"))
    y[..., :1024] = _normalised(head, l).to(x.dtype)
    return y


def _empty_rows_nan_kernel(x: torch.Tensor) -> torch.Tensor:
    s = x.float()
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def _sum_in_input_dtype(x: torch.Tensor) -> torch.Tensor:
    s = x.float()
    l = torch.exp(s - _finite(s.amax(-1, keepdim=True))).to(x.dtype).sum(-1, keepdim=True, dtype=x.dtype)
    return _normalised(s, l.float()).to(x.dtype)


def _copies_first(x: torch.Tensor) -> torch.Tensor:
    s = x.contiguous().float()
    return _normalised(s, torch.exp(s - _finite(s.amax(-1, keepdim=True))).sum(-1, keepdim=True)).to(x.dtype)


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
