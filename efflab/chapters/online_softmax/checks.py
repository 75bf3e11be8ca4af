"""Exercises of chapter 03: references in float64, cases, hints, bars.

The references follow the definition over the whole row: they know no blocks and no running anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from efflab.chapters.online_softmax import mistakes
from efflab.checking import SOFTMAX, Bar, Case, Draw, Exercise, Forbidden, Kernel, Limit, Output, XRay
from efflab.checking.draw import Layout
from efflab.gpu.curves import Curve

NEVER = float("-inf")
DRIVES = "efflab.chapters.online_softmax.drive"
Pair = tuple[torch.Tensor, torch.Tensor]


# --- references ---------------------------------------------------------------------------------------------------

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


# --- cases --------------------------------------------------------------------------------------------------------

def far_apart(draw: Draw, rows: int, cols: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rows round 1e4, -1e4, 0, 1e4, …"""
    shifts = torch.tensor([1e4, -1e4, 0.0], device=draw.device).repeat(rows)[:rows, None]
    return (draw.normal(rows, cols, scale=3.0) + shifts).to(dtype)


def with_holes(draw: Draw, rows: int, cols: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """-inf in about half of the entries, never in the last column."""
    x = draw.normal(rows, cols, dtype=dtype)
    holes = draw.uniform(rows, cols) < 0.5
    holes[:, -1] = False
    return x.masked_fill(holes, NEVER)


def with_empty_rows(draw: Draw, rows: int, cols: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Every second row is -inf throughout; the others start with a stretch of -inf."""
    x = draw.normal(rows, cols, dtype=dtype)
    x[:, :cols // 2] = NEVER
    x[1::2] = NEVER
    return x


def softmax_3pass_cases(draw: Draw) -> Iterator[Case]:
    yield Case(name="one number", inputs={"x": draw.normal(1)})
    yield Case(name="one row", inputs={"x": draw.normal(17)})
    yield Case(name="three rows", inputs={"x": draw.normal(3, 17)})
    yield Case(name="square", inputs={"x": draw.normal(8, 8)})
    yield Case(name="three axes", inputs={"x": draw.normal(2, 3, 65)})
    yield Case(name="rows round 1e4, -1e4 and 0", inputs={"x": far_apart(draw, 6, 33)})
    yield Case(name="-inf in half of the entries", inputs={"x": with_holes(draw, 4, 20)})
    yield Case(name="rows not adjacent in memory", inputs={"x": draw.normal(6, 9, layout="transposed")})
    yield Case(name="one row, repeated with stride 0", inputs={"x": draw.normal(4, 31, layout="expanded")})
    yield Case(name="float16, large", inputs={"x": draw.normal(3, 64, dtype=torch.float16, scale=500.0)})
    yield Case(name="bfloat16", inputs={"x": draw.normal(3, 64, dtype=torch.bfloat16)})


def block_inputs(draw: Draw) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, inputs) shared by the two functions that take a block."""
    yield "one number", {"x": draw.normal(1), "block": 1}
    yield "one row, the last block shorter", {"x": draw.normal(17), "block": 7}
    yield "blocks of one", {"x": draw.normal(3, 9), "block": 1}
    yield "one block, exactly", {"x": draw.normal(3, 33), "block": 33}
    yield "a block longer than the row", {"x": draw.normal(3, 20), "block": 64}
    yield "a row longer than its blocks by one", {"x": draw.normal(2, 3, 65), "block": 16}
    yield "the maximum grows with every block", {"x": draw.normal(4, 24, scale=3.0).sort(-1).values, "block": 4}
    yield "all negative", {"x": draw.normal(4, 19, shift=-9.0), "block": 5}
    yield "rows round 1e4, -1e4 and 0", {"x": far_apart(draw, 6, 40), "block": 8}
    yield "-inf in half of the entries", {"x": with_holes(draw, 5, 30), "block": 2}
    yield "rows of only -inf, others begin with it", {"x": with_empty_rows(draw, 4, 21), "block": 4}
    yield "rows not adjacent in memory", {"x": draw.normal(6, 9, layout="transposed"), "block": 4}
    yield "one row, repeated with stride 0", {"x": draw.normal(4, 31, layout="expanded"), "block": 8}
    yield "float16, large", {"x": draw.normal(3, 64, dtype=torch.float16, scale=500.0), "block": 16}
    yield "bfloat16", {"x": draw.normal(3, 50, dtype=torch.bfloat16), "block": 16}


LONG_ROWS, LONG_BLOCK = (4, 16_384), 256
BLOCK_BYTES = 4 * LONG_ROWS[0] * LONG_BLOCK      # one block in float32


def online_stats_cases(draw: Draw) -> Iterator[Case]:
    for name, inputs in block_inputs(draw):
        yield Case(name=name, inputs=inputs)
    yield Case(name="a stream: what was passed cannot be read again (NaN)", drive=f"{DRIVES}:as_stream",
               expect=stats_reference, inputs={"x": draw.normal(1, 50), "block": 8})
    yield Case(name="long rows, memory counted", inputs={"x": draw.normal(*LONG_ROWS), "block": LONG_BLOCK},
               limit=Limit(extra_bytes=8 * BLOCK_BYTES, because=f"One block is {BLOCK_BYTES:,} bytes here, all of x "
                           f"{BLOCK_BYTES * LONG_ROWS[1] // LONG_BLOCK:,}: keep m, l and one block of values."))


def stats_pair(draw: Draw, *shape: int, shift: float = 0.0) -> Pair:
    """Statistics as pieces of 1 to 50 numbers have them."""
    return draw.normal(*shape, scale=3.0, shift=shift), draw.uniform(*shape, low=1.0, high=50.0)


def empty_pair(draw: Draw, *shape: int) -> Pair:
    return torch.full(shape, NEVER, device=draw.device), torch.zeros(shape, device=draw.device)


def merge_stats_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, a: Pair, b: Pair) -> Case:
        return Case(name=name, inputs={"a": a, "b": b})

    yield case("one row", stats_pair(draw), stats_pair(draw))
    yield case("17 rows", stats_pair(draw, 17), stats_pair(draw, 17))
    yield case("the first has the larger maximum", stats_pair(draw, 3, 5, shift=20.0), stats_pair(draw, 3, 5))
    yield case("the second has the larger maximum", stats_pair(draw, 3, 5), stats_pair(draw, 3, 5, shift=20.0))
    yield case("both round 1e4", stats_pair(draw, 9, shift=1e4), stats_pair(draw, 9, shift=1e4))
    yield case("both round -1e4", stats_pair(draw, 9, shift=-1e4), stats_pair(draw, 9, shift=-1e4))
    yield case("far apart", stats_pair(draw, 9, shift=1e4), stats_pair(draw, 9, shift=-1e4))
    yield case("the first is empty", empty_pair(draw, 7), stats_pair(draw, 7))
    yield case("the second is empty", stats_pair(draw, 7), empty_pair(draw, 7))
    yield case("both are empty", empty_pair(draw, 7), empty_pair(draw, 7))
    m, l = stats_pair(draw, 8, 5)
    m[2], l[2] = NEVER, 0.0                                      # one of the eight pieces is empty
    for name, order in TREES.items():
        yield Case(name=f"eight pieces, {name}", drive=f"{DRIVES}:in_tree", expect=tree_expected,
                   inputs={"m": m, "l": l, "order": order})


TREES = {
    "left to right": [[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 6], [0, 7]],
    "a balanced tree": [[0, 1], [2, 3], [4, 5], [6, 7], [0, 2], [4, 6], [0, 4]],
    "right to left": [[6, 7], [5, 6], [4, 5], [3, 4], [2, 3], [1, 2], [0, 1]],
}


def attention_piece(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Pair:
    """o and lse of q over the keys k, by the definition; for the inputs of merge_outputs."""
    s = q.double() @ k.double().mT                                                # (B, H, Nq, Nk)
    m, l = stats_reference(s)
    return (softmax_reference(s) @ v.double()).to(v.dtype), (m + l.log()).float()


def attention_inputs(draw: Draw, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Attention over 13 keys, in pieces of 5 and 8."""
    q, k, v = draw.normal(2, 3, 4, 16), draw.normal(2, 3, 13, 16), draw.normal(2, 3, 13, 16, dtype=dtype)
    (o1, lse1), (o2, lse2) = (attention_piece(q, k[:, :, s], v[:, :, s]) for s in (slice(5), slice(5, None)))
    return {"o1": o1, "lse1": lse1, "o2": o2, "lse2": lse2}


def merge_outputs_cases(draw: Draw) -> Iterator[Case]:
    def piece(*shape: int, shift: float = 0.0, dtype: torch.dtype = torch.float32, layout: Any = "contiguous") -> Pair:
        return draw.normal(*shape, dtype=dtype, layout=layout), draw.normal(*shape[:-1], scale=2.0, shift=shift)

    def nothing(*shape: int) -> Pair:
        return torch.zeros(shape, device=draw.device), torch.full(shape[:-1], NEVER, device=draw.device)

    def case(name: str, first: Pair, second: Pair) -> Case:
        return Case(name=name, inputs={"o1": first[0], "lse1": first[1], "o2": second[0], "lse2": second[1]})

    yield case("one row", piece(17), piece(17))
    yield case("head size 1", piece(3, 1), piece(3, 1))
    yield Case(name="attention over 13 keys in two pieces", inputs=attention_inputs(draw, torch.float32))
    yield Case(name="the same in float16", inputs=attention_inputs(draw, torch.float16))
    yield case("lse round 1e4", piece(5, 8, shift=1e4), piece(5, 8, shift=1e4))
    yield case("lse round -1e4", piece(5, 8, shift=-1e4), piece(5, 8, shift=-1e4))
    yield case("far apart", piece(5, 8, shift=-1e4), piece(5, 8, shift=1e4))
    yield case("the first saw no key", nothing(4, 6), piece(4, 6))
    yield case("the second saw no key", piece(4, 6), nothing(4, 6))
    yield case("neither saw a key", nothing(4, 6), nothing(4, 6))
    yield case("rows not adjacent in memory", piece(2, 6, 9, layout="transposed"), piece(2, 6, 9, layout="sliced"))
    yield case("bfloat16", piece(3, 40, dtype=torch.bfloat16), piece(3, 40, dtype=torch.bfloat16))


def online_softmax_cases(draw: Draw) -> Iterator[Case]:
    for name, inputs in block_inputs(draw):
        yield Case(name=name, inputs=inputs)
    x = draw.normal(*LONG_ROWS)
    yield Case(name="long rows, memory counted", inputs={"x": x, "block": LONG_BLOCK},
               limit=Limit(extra_bytes=4 * x.numel() + 12 * BLOCK_BYTES,
                           because=f"y itself is {4 * x.numel():,} bytes, one block {BLOCK_BYTES:,}: fill y block by "
                           "block."))


def fused_softmax_cases(draw: Draw) -> Iterator[Case]:
    for dtype in draw.float_dtypes:
        name = str(dtype).removeprefix("torch.")
        for rows, cols in ((1, 1), (3, 17), (2, 127), (2, 128), (2, 129), (4, 1000), (2, 1025)):
            yield Case(name=f"{rows} x {cols}, {name}", inputs={"x": draw.normal(rows, cols, dtype=dtype, scale=2.0)})
        yield Case(name=f"rows round 1e4, -1e4 and 0, {name}", inputs={"x": far_apart(draw, 3, 70, dtype)})
        yield Case(name=f"-inf in half of the entries, {name}", inputs={"x": with_holes(draw, 3, 40, dtype)})
        yield Case(name=f"rows of only -inf, {name}", inputs={"x": with_empty_rows(draw, 4, 50, dtype)})
    layouts: tuple[Layout, ...] = ("sliced", "offset", "expanded", "transposed")
    for layout in layouts:
        yield Case(name=f"float16, {layout}", inputs={"x": draw.normal(4, 200, dtype=torch.float16, layout=layout)})
    yield Case(name="1 x 65,536, nearly equal values, float16",
               inputs={"x": draw.normal(1, 65_536, dtype=torch.float16, scale=1e-5)})
    yield Case(name="1 x 40,000, float32", inputs={"x": draw.normal(1, 40_000)})
    layouts = ("transposed", "contiguous")
    for layout in layouts:
        x = draw.normal(5, 600, dtype=torch.float16, layout=layout)
        limit = Limit(extra_bytes=x.numel() * x.element_size() + 64, launches=1,
                      because="y is all the memory it needs, and one launch all the work: no copy of x, no buffers.")
        yield Case(name=f"float16, {layout}, memory and launches counted", inputs={"x": x}, limit=limit)


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


def _exercise(name: str, **rest: Any) -> Exercise:
    return Exercise(chapter="online_softmax", name=name, forbidden=BY_HAND, **rest)


EXERCISES = (
    _exercise(
        "softmax_3pass", summary="Write softmax along the last axis: maximum, sum, normalise.",
        reference=softmax_reference, baseline=softmax_baseline, cases=softmax_3pass_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.SOFTMAX_3PASS, points=3, minutes=5, difficulty="easy",
        hints=("Three lines, one for each pass. keepdim=True keeps an axis of size 1 that broadcasts against x.",
               "Go to float32 first, x = x.float(), which makes a new name and changes no input; come back at the end.",
               "m = x.amax(-1, keepdim=True); the sum is of torch.exp(x - m) along -1, again with keepdim=True; "
               "divide, then .to the dtype that came in.")),
    _exercise(
        "online_stats", summary="Return maximum and sum of exponentials of each row, from one pass over its blocks.",
        reference=stats_reference, baseline=stats_baseline, cases=online_stats_cases,
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
        reference=merge_stats_reference, cases=merge_stats_cases,
        outputs=(Output("m", torch.float32), Output("l", torch.float32)), mistakes=mistakes.MERGE_STATS,
        points=4, minutes=8, difficulty="easy",
        hints=("It is the loop body of online_stats, with both sides treated alike.",
               "M is the larger maximum. Each sum gets the factor exp(its own maximum - M); then they can be added.",
               "Both empty: M is -inf and M - M is NaN. Replace M by 0 in the exponents where it is -inf, "
               "and return the M that is -inf.")),
    _exercise(
        "merge_outputs", summary="Merge attention over two sets of keys from each one's output and lse.",
        reference=merge_outputs_reference, cases=merge_outputs_cases,
        outputs=(Output("o", "o1"), Output("lse", torch.float32)), mistakes=mistakes.MERGE_OUTPUTS,
        points=5, minutes=12, difficulty="medium",
        hints=("exp(lse) is a piece's whole sum of exponentials. What share of the two sums together does each hold?",
               "Do not take exp(lse) as it is: subtract the larger lse first. w1 = exp(lse1 - M), w2 = exp(lse2 - M); "
               "the shares are w1 / (w1 + w2) and w2 / (w1 + w2), and lse = M + log(w1 + w2).",
               "o has one axis more than lse: share.unsqueeze(-1). Where both are empty use 0 for M in the exponents "
               "and 1 for the total in the division; log(0) = -inf is then right for lse.")),
    _exercise(
        "online_softmax", summary="Write softmax in two passes over blocks: online_stats, then normalise.",
        reference=softmax_reference, baseline=softmax_baseline, cases=online_softmax_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.ONLINE_SOFTMAX, points=4, minutes=8, difficulty="easy",
        hints=("m and l are all that the second pass needs: y = exp(x - m) / l, block by block.",
               "Make y with torch.empty_like(x) and fill y[..., start:start + block]. m and l need unsqueeze(-1).",
               "A row of only -inf has m = -inf and l = 0: subtract 0 there, divide by 1; exp(-inf) = 0 gives zeros.")),
    _exercise(
        "fused_softmax", summary="Write a Triton kernel that reads each row once, holds it in registers, writes y.",
        reference=softmax_reference, baseline=softmax_baseline, cases=fused_softmax_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.FUSED_SOFTMAX, kernel=KERNEL,
        points=8, minutes=25, difficulty="hard",
        hints=("One program a row: tl.program_id(0) is the row. tl.arange(0, BLOCK_N) are its columns; BLOCK_N is the "
               "next power of two, so mask what lies past N, in the load and in the store.",
               "Load with other=float('-inf'): then the padding neither wins the maximum nor adds to the sum. Go to "
               "float32 right after the load, to y's dtype (y_ptr.dtype.element_ty) right before the store.",
               "m = tl.max(x, axis=0), p = tl.exp(x - m), l = tl.sum(p, axis=0), store p / l. A row of only -inf needs "
               "tl.where(m == float('-inf'), 0.0, m) and tl.where(l == 0.0, 1.0, l). Row m starts at "
               "x_ptr + m * x_row_stride, m in int64. Launch M programs: fused_softmax_kernel[(M,)](…).")),
)
