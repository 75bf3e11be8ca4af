"""Exercises of chapter 03: what they ask, hints, points, what the compiler and the clock must say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from efflab.chapters.online_softmax import cases, mistakes, references
from efflab.checking import ALL_BUT_MAKING_AND_COPIES, SOFTMAX, Bar, Draw, Exercise, Forbidden, Kernel, Output, XRay
from efflab.gpu.curves import Curve


def xray_rows(cols: int, dtype: torch.dtype) -> Mapping[str, Any]:
    return {"x": torch.empty(1024, cols, dtype=dtype)}


def bar_rows(draw: Draw, rows: int = 65_536, cols: int = 4_096) -> Mapping[str, Any]:
    """bfloat16, half a GiB: made on the GPU."""
    generator = torch.Generator(device=draw.device).manual_seed(draw.seed)
    return {"x": torch.randn(rows, cols, generator=generator, device=draw.device, dtype=torch.bfloat16)}


BAR_BYTES = 2.0 * 65_536 * 4_096 * 2      # x read once, y written once
KERNEL = Kernel(
    xrays=(
        XRay(arch="sm_75", name="4,096 columns, float16", inputs=lambda: xray_rows(4096, torch.float16)),
        XRay(arch="sm_80", name="4,096 columns, bfloat16", inputs=lambda: xray_rows(4096, torch.bfloat16)),
        XRay(arch="sm_89", name="4,096 columns, bfloat16", inputs=lambda: xray_rows(4096, torch.bfloat16)),
        XRay(arch="sm_90", name="4,096 columns, bfloat16", inputs=lambda: xray_rows(4096, torch.bfloat16)),
    ),
    bars=(
        Bar(name="of copy bandwidth, 65,536 x 4,096 bfloat16", peer="clone", at_least=0.85, inputs=bar_rows, gpu="H200",
            bytes=BAR_BYTES, stretch=0.95),
        Bar(name="against torch.compile's softmax, 65,536 x 4,096 bfloat16", peer="compiled_softmax", at_least=1.0,
            inputs=bar_rows, gpu="H200", bytes=BAR_BYTES, stretch=2.0),
    ),
)


SIZES = (256, 1024, 4096, 16_384, 32_768, 65_536)
ELEMENTS = 2**28
CURVES = (
    Curve(name="softmax of 2²⁸ bfloat16 numbers in rows of N", axis="N", sizes=SIZES, functions=("fused_softmax",),
          peers=("clone", "compiled_softmax", "torch_softmax"), unit="TB/s", work=lambda cols: 4.0 * ELEMENTS,
          inputs=lambda draw, cols: bar_rows(draw, ELEMENTS // cols, cols)),
)


# --- exercises ----------------------------------------------------------------------------------------------------

BY_HAND = Forbidden(operators=SOFTMAX, instead="Write it out with max, exp, log and sum: softmax, logsumexp and "
                    "logaddexp do for you what this chapter is about.")


IN_THE_KERNEL = Forbidden(operators=ALL_BUT_MAKING_AND_COPIES,
                          instead="All arithmetic belongs into the kernel; outside it only make y, and launch.")


def _exercise(name: str, forbidden: Forbidden = BY_HAND, **rest: Any) -> Exercise:
    return Exercise(chapter="online_softmax", name=name, forbidden=forbidden, **rest)


EXERCISES = (
    _exercise(
        "softmax_3pass", summary="Write softmax along the last axis: maximum, sum, normalise.",
        reference=references.softmax_reference, baseline=references.softmax_baseline, cases=cases.softmax_3pass_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.SOFTMAX_3PASS, points=3, minutes=5, difficulty="easy",
        hints=("Three lines, one for each pass. keepdim=True keeps an axis of size 1 that broadcasts against x.",
               "Go to float32 first, x = x.float(), which makes a new name and changes no input; come back at the end.",
               "m = x.amax(-1, keepdim=True); the sum is of torch.exp(x - m) along -1, again with keepdim=True; "
               "divide, then .to the dtype that came in.")),
    _exercise(
        "online_stats", summary="Return maximum and sum of exponentials of each row, from one pass over its blocks.",
        reference=references.stats_reference, baseline=references.stats_baseline, cases=cases.online_stats_cases,
        outputs=(Output("m", torch.float32), Output("l", torch.float32)), mistakes=mistakes.ONLINE_STATS,
        points=6, minutes=15, difficulty="medium",
        hints=("Carry m and l. For each block: what is the maximum so far, and what must happen to the old l so that "
               "it is relative to the new maximum?",
               "m_new = torch.maximum(m, s.amax(-1)). The old sum gets the factor exp(m - m_new), at most 1; the "
               "block adds exp(s - m_new) summed up. Start with m = -inf and l = 0.",
               "When m_new is still -inf, subtract 0 instead: shift = m_new.masked_fill(m_new == -math.inf, 0.0), and "
               "use shift in both exponents. Then exp(-inf - 0) = 0 and an empty row keeps (-inf, 0).")),
    _exercise(
        "merge_stats", summary="Merge the statistics (m, l) of two pieces of a row.",
        reference=references.merge_stats_reference, cases=cases.merge_stats_cases,
        outputs=(Output("m", torch.float32), Output("l", torch.float32)), mistakes=mistakes.MERGE_STATS,
        points=4, minutes=8, difficulty="easy",
        hints=("It is the loop body of online_stats, with both sides treated alike.",
               "M is the larger maximum. Each sum gets the factor exp(its own maximum - M); then they can be added.",
               "Both empty: M is -inf and M - M is NaN. Replace M by 0 in the exponents where it is -inf, "
               "and return the M that is -inf.")),
    _exercise(
        "merge_outputs", summary="Merge attention over two sets of keys from each one's output and lse.",
        reference=references.merge_outputs_reference, cases=cases.merge_outputs_cases,
        outputs=(Output("o", "o1"), Output("lse", torch.float32)), mistakes=mistakes.MERGE_OUTPUTS,
        points=5, minutes=12, difficulty="medium",
        hints=("exp(lse) is a piece's whole sum of exponentials. What share of the two sums together does each hold?",
               "Do not take exp(lse) as it is: subtract the larger lse first. w1 = exp(lse1 - M), w2 = exp(lse2 - M); "
               "the shares are w1 / (w1 + w2) and w2 / (w1 + w2), and lse = M + log(w1 + w2).",
               "o has one axis more than lse: share.unsqueeze(-1). Where both are empty use 0 for M in the exponents "
               "and 1 for the total in the division; log(0) = -inf is then right for lse.")),
    _exercise(
        "online_softmax", summary="Write softmax in two passes over blocks: online_stats, then normalise.",
        reference=references.softmax_reference, baseline=references.softmax_baseline, cases=cases.online_softmax_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.ONLINE_SOFTMAX, points=4, minutes=8, difficulty="easy",
        hints=("m and l are all that the second pass needs: y = exp(x - m) / l, block by block.",
               "Make y with torch.empty_like(x) and fill y[..., start:start + block]. m and l need unsqueeze(-1).",
               "A row of only -inf has m = -inf and l = 0: subtract 0 there, divide by 1; exp(-inf) = 0 gives zeros.")),
    _exercise(
        "fused_softmax", summary="Write a Triton kernel that reads each row once, holds it in registers, writes y.",
        reference=references.softmax_reference, baseline=references.softmax_baseline, cases=cases.fused_softmax_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.FUSED_SOFTMAX, kernel=KERNEL, forbidden=IN_THE_KERNEL,
        points=8, minutes=25, difficulty="hard",
        hints=("One program a row: tl.program_id(0) is the row. tl.arange(0, BLOCK_N) are its columns; BLOCK_N is the "
               "next power of two, so mask what lies past N, in the load and in the store.",
               "Load with other=float('-inf'): then the padding neither wins the maximum nor adds to the sum. Go to "
               "float32 right after the load, to y's dtype (y_ptr.dtype.element_ty) right before the store.",
               "m = tl.max(x, axis=0), p = tl.exp(x - m), l = tl.sum(p, axis=0), store p / l. A row of only -inf needs "
               "tl.where(m == float('-inf'), 0.0, m) and tl.where(l == 0.0, 1.0, l). Row m starts at "
               "x_ptr + m * x_row_stride, m in int64. Launch M programs: fused_softmax_kernel[(M,)](…).")),
)
