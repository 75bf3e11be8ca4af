"""Known wrong answers of chapter 04, each with the sentence that a report says when it sees their output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import floordiv, truediv

import torch
import torch.nn.functional as F

from efflab.chapters.flash_attention.wrong_attention import Pair, Tiled, Whole
from efflab.checking import Mistake


def _hidden(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The whole causal mask, (Nq, Nk): what tiles are there to avoid."""
    Nq, Nk = q.shape[2], k.shape[2]
    return torch.ones((Nq, Nk), dtype=torch.bool, device=q.device).triu(Nk - Nq + 1)


def calls_sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
               block_q: int = 64, block_k: int = 64) -> Pair:
    group = q.shape[1] // k.shape[1]
    wide_q, wide_k, wide_v = q.float(), k.float().repeat_interleave(group, 1), v.float().repeat_interleave(group, 1)
    mask = ~_hidden(q, k) if causal else None
    o = F.scaled_dot_product_attention(wide_q, wide_k, wide_v, attn_mask=mask, scale=scale)
    return o.to(q.dtype), Whole()(q, k, v, causal, scale)[1]


def whole_matrix(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
                 block_q: int = 64, block_k: int = 64) -> Pair:
    return Whole()(q, k, v, causal, scale)


def whole_rows(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
               block_q: int = 64, block_k: int = 64) -> Pair:
    return Tiled()(q, k, v, causal, scale, block_q, k.shape[2])


def whole_mask(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None,
               block_q: int = 64, block_k: int = 64) -> Pair:
    mask = _hidden(q, k)                                                # alive while the tiles are computed
    right = Tiled()(q, k, v, causal, scale, block_q, block_k)
    del mask
    return right


def scales_in_place(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False,
                    scale: float | None = None, block_q: int = 64, block_k: int = 64) -> Pair:
    right = Tiled()(q, k, v, causal, scale, block_q, block_k)
    q *= q.shape[-1] ** -0.5 if scale is None else scale
    return right


TOP_LEFT = ("the causal mask is aligned top-left (j <= i); the last query must see all keys also when Nq != Nk: "
            "j <= i + Nk - Nq")
STRICT = "the diagonal itself is masked: query i does see key i + Nk - Nq"
MODULO = "query head h reads key/value head h % Hkv; groups are neighbours, h // (Hq // Hkv)"
DIVIDED = "query head h reads key/value head h // Hkv; the size of a group is Hq // Hkv"
NO_SCALE = "the scores are not scaled"
SCALE_IGNORED = "the argument scale is ignored and D**-0.5 is used always"
SCALE_TWICE = "the scale is applied twice, once to q and once to the scores"
FINITE = "hidden scores get -1e6 in place of -inf, so a row that sees nothing becomes the mean of v"
NAN_ROWS = "a row that sees no key computes -inf - (-inf) or 0 / 0"
ZERO_BY_ZERO = "a row that sees no key has l = 0 and lse = -inf: its o is NaN, and should be 0"
BASE2 = "lse is in powers of two: multiply by ln 2"

NAIVE = (
    Mistake(name="top_left_mask", sentence=TOP_LEFT, function=Whole(align="top_left")),
    Mistake(name="diagonal_hidden", sentence=STRICT, function=Whole(align="strict")),
    Mistake(name="heads_modulo", sentence=MODULO, function=Whole(heads="modulo")),
    Mistake(name="heads_divided", sentence=DIVIDED, function=Whole(heads="divided")),
    Mistake(name="no_scale", sentence=NO_SCALE, function=Whole(scaling="missing")),
    Mistake(name="scale_ignored", sentence=SCALE_IGNORED, function=Whole(scaling="ignored")),
    Mistake(name="finite_mask", sentence=FINITE, function=Whole(fill=-1e6)),
    Mistake(name="empty_rows_nan", sentence=NAN_ROWS, function=Whole(guard=False)),
    Mistake(name="empty_rows_divided", sentence=ZERO_BY_ZERO, function=Whole(guard_division=False)),
    Mistake(name="softmax_over_queries", sentence="the softmax runs over the queries; each row of p must sum to 1",
            function=Whole(axis=-2)),
    Mistake(name="no_maximum", sentence="exp is taken of the bare scores and overflows; subtract each row's maximum",
            function=Whole(subtract_max=False)),
    Mistake(name="lse_base2", sentence=BASE2, function=Whole(lse_as="base2")),
    Mistake(name="lse_without_maximum", sentence="lse lacks the maximum that was subtracted before exp",
            function=Whole(lse_as="without_max")),
    Mistake(name="lse_unscaled", sentence="lse is taken from the scores before the scale",
            function=Whole(lse_as="unscaled")),
    Mistake(name="lse_in_input_dtype", sentence="lse has the inputs' dtype; it is float32 always",
            function=Whole(lse_as="input_dtype"), recognisable=False),
    Mistake(name="calls_sdpa", sentence="PyTorch's attention does the work", function=calls_sdpa, caught_by="forbidden",
            recognisable=False),
)

# What goes wrong in the tiles, in PyTorch as in Triton.
_TILES = (
    Mistake(name="top_left_mask", sentence=TOP_LEFT, function=Tiled(align="top_left", stop="never")),
    Mistake(name="heads_modulo", sentence=MODULO, function=Tiled(heads="modulo")),
    Mistake(name="no_scale", sentence=NO_SCALE, function=Tiled(scaling="missing")),
    Mistake(name="scale_twice", sentence=SCALE_TWICE, function=Tiled(scaling="twice")),
    Mistake(name="finite_mask", sentence=FINITE, function=Tiled(fill=-1e6, stop="never")),
    Mistake(name="empty_rows_nan", sentence=NAN_ROWS, function=Tiled(guard=False)),
    Mistake(name="empty_rows_divided", sentence=ZERO_BY_ZERO, function=Tiled(guard_division=False)),
    Mistake(name="never_rescaled", sentence="neither the accumulator nor the sum is rescaled as the maximum grows",
            function=Tiled(rescale_acc=False, rescale_l=False)),
    Mistake(name="accumulator_not_rescaled", sentence="the sum is rescaled as the maximum grows, the accumulator not",
            function=Tiled(rescale_acc=False)),
    Mistake(name="sum_not_rescaled", sentence="the accumulator is rescaled as the maximum grows, the sum is not",
            function=Tiled(rescale_l=False)),
    Mistake(name="maximum_starts_at_zero", sentence="the running maximum starts at 0: where all scores are far below, "
            "every exponential underflows", function=Tiled(first_max=0.0)),
    Mistake(name="divided_in_the_loop", sentence="the accumulator is divided by the sum at every tile, though it is "
            "carried on as if it were not", function=Tiled(divide="inside")),
    Mistake(name="never_divided", sentence="the accumulator is not divided by the sum at the end",
            function=Tiled(divide="never")),
    Mistake(name="tail_counted", sentence="keys past the end are not masked: padding counts as keys with a score of 0",
            function=Tiled(tail="counted")),
    Mistake(name="tail_dropped", sentence="the last, shorter tile of keys is left out", function=Tiled(tail="dropped")),
    Mistake(name="stops_too_early", sentence="the loop over keys ends at what the tile's first row sees; its last row "
            "sees further", function=Tiled(stop="early")),
    Mistake(name="stops_without_offset", sentence="the causal loop ends at the query's own index; the end lies Nk - Nq "
            "further on", function=Tiled(stop="no_offset")),
    Mistake(name="half_accumulator", sentence="the accumulator has the inputs' dtype: in float16 it overflows at "
            "65,504 and rounds at every tile", function=Tiled(half_acc=True)),
    Mistake(name="lse_base2", sentence=BASE2, function=Tiled(lse_as="base2")),
    Mistake(name="lse_sum_only", sentence="lse is the logarithm of the sum alone; add the running maximum",
            function=Tiled(lse_as="sum_only")),
    Mistake(name="calls_sdpa", sentence="PyTorch's attention does the work", function=calls_sdpa, caught_by="forbidden",
            recognisable=False),
    Mistake(name="scales_in_place", sentence="q is scaled where it lies", function=scales_in_place,
            caught_by="in_place", recognisable=False),
)

TILED = (
    *_TILES,
    Mistake(name="whole_matrix", sentence="the score matrix is made after all", function=whole_matrix,
            caught_by="limit", recognisable=False),
    Mistake(name="whole_rows", sentence="whole rows of scores are made: block_k is not used", function=whole_rows,
            caught_by="limit", recognisable=False),
    Mistake(name="whole_mask", sentence="the mask is made as one Nq x Nk tensor", function=whole_mask,
            caught_by="limit", recognisable=False),
    Mistake(name="hidden_tiles_computed", sentence="tiles that no row sees are computed and thrown away",
            function=Tiled(stop="never"), caught_by="limit", recognisable=False),
)

_KERNEL_ONLY = (
    Mistake(name="strides_assumed", sentence="the kernel takes its inputs for contiguous; pass every stride",
            function=Tiled(contiguous=True)),
)

_FAST_ONLY = (
    Mistake(name="exp2_of_natural_scores", sentence="exp2 is taken of scores that were not multiplied by log2(e)",
            function=Tiled(base="exp2", lse_as="natural")),
    Mistake(name="lse_mixed_bases", sentence="lse adds a maximum in powers of two to a natural logarithm",
            function=Tiled(lse_as="mixed")),
    Mistake(name="diagonal_not_masked", sentence="the tile that some rows see only in part is run without the mask",
            function=Tiled(diagonal="open")),
    Mistake(name="diagonal_skipped", sentence="the tile between the unmasked loop and the masked one is left out: the "
            "second loop starts where the first one ended", function=Tiled(diagonal="skipped")),
)


def _without_matmul(mistake: Mistake) -> Mistake:
    """The same slip, refused for itself and not for calling PyTorch's matrix product."""
    if isinstance(mistake.function, Tiled):
        return replace(mistake, function=replace(mistake.function, matmul=False))
    return mistake


KERNEL = tuple(_without_matmul(m) for m in (*_TILES, *_KERNEL_ONLY))
FAST = (*KERNEL, *(_without_matmul(m) for m in _FAST_ONLY))


# hbm_traffic: one slip each.

def round_up(n: int, block: int) -> int:
    return -(-n // block)


def traffic(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str, *,
            count: Callable[[int, int], float] = round_up, scores: int = 4, fa1_rows: int = 3, fa1_stats: int = 4,
            fa1_by_q: bool = False, lse: int = 1, reread: bool = True) -> float:
    if algorithm == "naive":
        return 2 * (Nq + Nk) * D + scores * Nq * Nk
    if algorithm == "fa1":
        tiles = count(Nq, block_q) if fa1_by_q else count(Nk, block_k)
        return 2 * Nk * D + tiles * (fa1_rows * Nq * D + fa1_stats * Nq)
    return 2 * Nq * D + lse * Nq + (count(Nq, block_q) if reread else 1) * 2 * Nk * D


def algorithms_swapped(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str) -> float:
    return traffic(Nq, Nk, D, block_q, block_k, {"fa1": "fa2", "fa2": "fa1"}.get(algorithm, algorithm))


def bytes_not_elements(Nq: int, Nk: int, D: int, block_q: int, block_k: int, algorithm: str) -> float:
    return 2 * traffic(Nq, Nk, D, block_q, block_k, algorithm)


TRAFFIC = (
    Mistake(name="scores_counted_once", sentence="S and P are counted once each; both are written and read again",
            function=partial(traffic, scores=2)),
    Mistake(name="whole_tiles_only", sentence="the ragged last tile is not counted: round the number of tiles up",
            function=partial(traffic, count=floordiv)),
    Mistake(name="fractional_tiles", sentence="a fraction of a tile is counted; a ragged tile reads its partners whole",
            function=partial(traffic, count=truediv)),
    Mistake(name="fa1_statistics_free", sentence="FA1's m and l are left out: each tile of keys reads and writes them",
            function=partial(traffic, fa1_stats=0)),
    Mistake(name="fa1_output_only_written", sentence="FA1's o, m and l are only written; each tile of keys reads them",
            function=partial(traffic, fa1_rows=2, fa1_stats=2)),
    Mistake(name="fa1_tiles_of_queries", sentence="FA1's outer loop is taken over queries; it runs over tiles of keys",
            function=partial(traffic, fa1_by_q=True)),
    Mistake(name="fa2_without_lse", sentence="lse is left out of what FA2 writes", function=partial(traffic, lse=0)),
    Mistake(name="fa2_keys_read_once", sentence="k and v are read once; each tile of queries reads them all again",
            function=partial(traffic, reread=False)),
    Mistake(name="algorithms_swapped", sentence="fa1 and fa2 are exchanged", function=algorithms_swapped),
    Mistake(name="bytes_not_elements", sentence="bytes of a two-byte dtype are returned; elements are asked for",
            function=bytes_not_elements),
)
