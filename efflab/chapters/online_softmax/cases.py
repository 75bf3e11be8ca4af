"""Inputs that wrong softmaxes do not survive: odd sizes and strides, rows far apart, -inf in entries, rows, blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from efflab.chapters.online_softmax.references import NEVER, Pair, softmax_reference, stats_reference, tree_expected
from efflab.checking import Case, Draw, Limit
from efflab.checking.draw import Layout

DRIVES = "efflab.chapters.online_softmax.drive"


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
    nearly_equal = draw.normal(1, 70_000, dtype=torch.float16, scale=1e-3)
    yield Case(name="float16, a sum beyond 65,504", inputs={"x": nearly_equal})


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
    nearly_equal = draw.normal(1, 70_000, dtype=torch.float16, scale=1e-3)
    yield "float16, a sum beyond 65,504", {"x": nearly_equal, "block": 8_192}


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
