"""The inputs that a wrong answer to chapter 04 does not survive: sizes that fit no tile, strides, masks, magnitudes."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from efflab.checking import Case, Draw, Limit

Inputs = dict[str, Any]
MAP_NORESERVE = 0x4000          # Linux: pages that are not touched are not accounted for


def qkv(draw: Draw, *, B: int = 1, heads: tuple[int, int] = (1, 1), N: tuple[int, int] = (17, 17), D: int = 16,
        dtype: torch.dtype = torch.float32, layouts: tuple[Any, Any, Any] = ("contiguous",) * 3,
        **more: Any) -> Inputs:
    """q, k, v and the arguments in `more`. Means differ from zero, so that padding and left-out keys show."""
    (Hq, Hkv), (Nq, Nk) = heads, N
    q = draw.normal(B, Hq, Nq, D, dtype=dtype, layout=layouts[0])
    k = draw.normal(B, Hkv, Nk, D, dtype=dtype, shift=0.3, layout=layouts[1])
    v = draw.normal(B, Hkv, Nk, D, dtype=dtype, shift=1.0, layout=layouts[2])
    return {"q": q, "k": k, "v": v, **more}


def sloped(draw: Draw, low: float, high: float, *, N: tuple[int, int], D: int = 16, heads: tuple[int, int] = (1, 1),
           **more: Any) -> Inputs:
    """Scores that run from about `low` at the first key to about `high` at the last one."""
    inputs = qkv(draw, heads=heads, N=N, D=D, **more)
    inputs["q"] = inputs["q"] * 0.1 + 1.0
    slope = torch.linspace(low, high, N[1], device=draw.device)[:, None] * D**-0.5
    inputs["k"] = (inputs["k"] - 0.3) * 0.5 + slope
    return inputs


def spread_out(t: torch.Tensor, axis: int) -> torch.Tensor:
    """The same values, 2**30 elements apart along an axis, so that offsets pass 2**31.

    A 32-bit offset wraps round to 2**31 elements before the tensor. That memory is there and holds zeros, so a kernel
    that wraps gives a wrong answer and does not crash. The pages in between are never touched and cost nothing.
    """
    strides = list(torch.empty(t.shape, device="meta").stride())
    strides[axis] = 1 << 30
    span = 1 + sum((n - 1) * s for n, s in zip(t.shape, strides, strict=True))
    return _untouched((1 << 31) + span, t).as_strided(t.shape, strides, 1 << 31).copy_(t)


def _untouched(count: int, like: torch.Tensor) -> torch.Tensor:
    """Memory for `count` elements, of which only those that are used are ever backed by real pages (on a CPU)."""
    if like.is_cuda:
        return torch.zeros(count, dtype=like.dtype, device=like.device)
    flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE} if hasattr(mmap, "MAP_ANONYMOUS") else {}
    return torch.frombuffer(mmap.mmap(-1, count * like.element_size(), **flags), dtype=like.dtype)


def naive_cases(draw: Draw) -> Iterator[Case]:
    yield Case(name="one query, one key", inputs=qkv(draw, N=(1, 1)))
    yield Case(name="17 tokens, two heads", inputs=qkv(draw, heads=(2, 2)))
    yield Case(name="a scale of its own", inputs=qkv(draw, B=2, N=(5, 9), scale=0.35))
    yield Case(name="scale 0: every key counts the same", inputs=qkv(draw, N=(5, 9), scale=0.0))
    yield Case(name="a negative scale", inputs=qkv(draw, N=(5, 9), scale=-0.5))
    yield Case(name="causal, square", inputs=qkv(draw, N=(17, 17), D=48, causal=True))
    yield Case(name="causal, fewer queries than keys", inputs=qkv(draw, heads=(2, 2), N=(17, 50), causal=True))
    yield Case(name="causal, more queries than keys", inputs=qkv(draw, heads=(2, 2), N=(50, 17), causal=True))
    yield Case(name="four query heads on two", inputs=qkv(draw, B=2, heads=(4, 2), N=(6, 10), D=32))
    yield Case(name="six query heads on two, causal", inputs=qkv(draw, heads=(6, 2), N=(12, 20), D=80, causal=True))
    yield Case(name="scores beyond a hundred", inputs=sloped(draw, -150.0, 150.0, N=(80, 60), heads=(2, 2)))
    layouts = ("transposed", "sliced", "expanded")
    yield Case(name="float16, awkward strides", inputs=qkv(draw, B=2, heads=(3, 3), N=(20, 33), dtype=torch.float16,
                                                           layouts=layouts))
    if torch.bfloat16 in draw.float_dtypes:
        yield Case(name="bfloat16", inputs=qkv(draw, heads=(4, 1), N=(50, 64), D=64, dtype=torch.bfloat16))


def tiled_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, inputs: Inputs, block_q: int, block_k: int, limit: Limit | None = None) -> Case:
        return Case(name=name, inputs={**inputs, "block_q": block_q, "block_k": block_k}, limit=limit or Limit())

    yield case("tiles of one", qkv(draw, heads=(2, 2), N=(3, 5)), 1, 1)
    yield case("tiles larger than N", qkv(draw, N=(17, 17), scale=0.35), 64, 128)
    yield case("a ragged last tile of keys", qkv(draw, heads=(2, 2), N=(17, 50), D=48), 16, 32)
    yield case("scores that rise along the keys", sloped(draw, -20.0, 20.0, N=(20, 64)), 16, 16)
    yield case("the same in falling order", sloped(draw, 20.0, -20.0, N=(20, 64)), 16, 16)
    yield case("scores far below zero", sloped(draw, -300.0, -200.0, N=(20, 40)), 8, 16)
    yield case("scale 0: every key counts the same", qkv(draw, N=(5, 20), scale=0.0), 8, 8)
    yield case("a negative scale, causal", qkv(draw, B=2, heads=(2, 1), N=(9, 20), scale=-1, causal=True), 4, 8)
    yield case("causal, square", qkv(draw, N=(50, 50), causal=True), 16, 8)
    yield case("causal, fewer queries than keys", qkv(draw, N=(17, 50), causal=True), 8, 16)
    yield case("causal, more queries than keys", qkv(draw, N=(50, 17), causal=True), 16, 8)
    yield case("four query heads on two", qkv(draw, B=2, heads=(4, 2), N=(6, 10), D=32), 4, 4)
    yield case("six query heads on two, causal", qkv(draw, heads=(6, 2), N=(12, 20), D=80, causal=True), 5, 7)
    layouts = ("transposed", "sliced", "expanded")
    yield case("float16, awkward strides",
               qkv(draw, B=2, heads=(3, 3), N=(20, 33), dtype=torch.float16, layouts=layouts), 8, 16)
    yield case("float16 sums beyond 65,504", heavy_sums(draw, Nk=400), 16, 64)
    yield case("bfloat16", qkv(draw, heads=(4, 1), N=(50, 64), D=64, dtype=torch.bfloat16), 16, 16)
    yield case("float16, weights that sum to 70,000", nearly_equal(draw, Nk=70_000), 16, 16_384)
    yield case("memory: many queries and keys", qkv(draw, N=(1024, 1024), causal=True), 64, 64,    # the mask counts too
               memory_limit(1024, 1024, 16, 64, 64))
    yield case("memory: one tile of queries", qkv(draw, N=(64, 8192), D=4), 64, 64, memory_limit(64, 8192, 4, 64, 64))
    visible = 4 * 32 * 32 * 16 * (8 * 9 // 2)                               # FLOPs of the tiles that some row sees
    yield case("work: hidden tiles are skipped", qkv(draw, N=(256, 256), causal=True), 32, 32,
               Limit(flops=visible, because="Under the causal mask nearly half of the tiles are hidden from every row; "
                                            "end the loop over keys where the tile's last row stops seeing."))


def heavy_sums(draw: Draw, Nk: int) -> Inputs:
    """Nearly equal weights on values near 400: the sum before the division passes float16's largest number."""
    inputs = qkv(draw, N=(5, Nk), dtype=torch.float16)
    inputs["q"] = inputs["q"] * 0.1
    inputs["v"] = inputs["v"] + 400.0
    return inputs


def nearly_equal(draw: Draw, Nk: int) -> Inputs:
    """Nearly equal weights: the running sum l comes near Nk, which can be beyond float16's largest number."""
    inputs = qkv(draw, N=(2, Nk), D=4, dtype=torch.float16)
    inputs["q"] = inputs["q"] * 0.01
    return inputs


def memory_limit(Nq: int, Nk: int, D: int, block_q: int, block_k: int) -> Limit:
    """One head in float32: the outputs, three copies of the inputs at most, and a dozen tiles of each kind."""
    outputs = Nq * D + Nq
    copies = 3 * (Nq + 2 * Nk) * D // 2
    tiles = 12 * (block_q * block_k + (block_q + 2 * block_k) * D)
    return Limit(extra_bytes=4 * (outputs + copies + tiles),
                 because=f"A score matrix, or whole rows of one, would take {4 * Nq * Nk:,} bytes. Only tiles of "
                         "block_q x block_k may exist at a time; the mask is one of them.")


def traffic_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, algorithm: str, Nq: int, Nk: int, D: int, block_q: int, block_k: int) -> Case:
        return Case(name=f"{algorithm}, {name}", exact=True, inputs={
            "Nq": Nq, "Nk": Nk, "D": D, "block_q": block_q, "block_k": block_k, "algorithm": algorithm})

    for algorithm in ("naive", "fa1", "fa2"):
        yield case("whole tiles", algorithm, 512, 512, 64, 64, 128)
        yield case("ragged tiles", algorithm, draw.integer(130, 190), draw.integer(200, 250), 48, 64, 96)
        yield case("tiles larger than N", algorithm, 17, 50, 16, 64, 64)
        yield case("one query", algorithm, 1, draw.integer(1000, 2000), 128, 64, 32)
        yield case("a long context", algorithm, 131072, 131072, 128, 128, 64)


def kernel_cases(draw: Draw) -> Iterator[Case]:
    """For both kernels. In the interpreter a tile of 64 x 64 takes milliseconds, so each case is a few dozen tiles."""
    half = torch.float16
    # On a GPU each dtype and head size is compiled anew, float32 products take longest: there gpu_cases has them.
    mixed = partial(qkv, draw, dtype=half if draw.on_gpu else torch.float32)
    yield Case(name="one query, one key", inputs=mixed(N=(1, 1)))
    yield Case(name="17 tokens, two heads", inputs=mixed(B=2, heads=(2, 2)))
    yield Case(name="full tiles", inputs=mixed(N=(64, 128), D=64, scale=0.05))
    yield from scale_cases(mixed)
    yield Case(name="D = 128", inputs=mixed(N=(20, 32), D=128))
    stored = ("contiguous", "transposed", "contiguous")
    yield Case(name="k stored transposed", inputs=mixed(heads=(2, 2), N=(20, 64), D=48, layouts=stored))
    yield Case(name="a ragged last tile of keys", inputs=mixed(heads=(2, 2), N=(50, 130), D=48))
    yield from sloped_cases(draw)
    yield Case(name="causal, square", inputs=mixed(N=(130, 130), D=64, dtype=half, causal=True))
    yield Case(name="causal, fewer queries than keys", inputs=mixed(N=(64, 150), causal=True))
    yield Case(name="causal, more queries than keys", inputs=mixed(N=(200, 100), causal=True))
    yield Case(name="causal, one query", inputs=mixed(heads=(2, 1), N=(1, 130), dtype=half, causal=True))
    yield Case(name="four query heads on two", inputs=mixed(B=2, heads=(4, 2), N=(17, 17), D=32))
    yield Case(name="six query heads on two, causal", inputs=mixed(heads=(6, 2), N=(17, 50), D=80, causal=True))
    yield Case(name="four query heads on one, shared by the batch", inputs=mixed(
        B=2, heads=(4, 1), N=(17, 64), dtype=half, layouts=("transposed", "expanded", "expanded")))
    yield Case(name="rows inside longer rows, odd addresses", inputs=mixed(
        B=2, heads=(3, 3), N=(33, 20), D=16, dtype=half, layouts=("sliced", "offset", "sliced")))
    yield Case(name="float16 sums beyond 65,504", inputs=heavy_sums(draw, Nk=400))
    yield Case(name="memory and launches counted", inputs=qkv(draw, N=(192, 512), dtype=half),
               limit=kernel_limit(192, 512, 16))
    if draw.on_gpu:
        yield from gpu_cases(draw)
    if not draw.on_gpu or torch.cuda.mem_get_info(draw.device)[0] > 10 * 2**30:
        yield from far_cases(draw)


def sloped_cases(draw: Draw) -> Iterator[Case]:
    yield Case(name="scores that rise along the keys", inputs=sloped(draw, -20.0, 20.0, N=(17, 130)))
    yield Case(name="the same in falling order", inputs=sloped(draw, 20.0, -20.0, N=(17, 130)))
    yield Case(name="scores far below zero", inputs=sloped(draw, -300.0, -200.0, N=(17, 130)))


def scale_cases(mixed: Callable[..., Inputs]) -> Iterator[Case]:
    yield Case(name="scale 0: every key counts the same", inputs=mixed(N=(17, 20), scale=0.0))
    yield Case(name="a negative scale, causal", inputs=mixed(N=(17, 20), scale=-0.5, causal=True))
    yield Case(name="scale 1, an int", inputs=mixed(N=(17, 20), scale=1))


def kernel_limit(Nq: int, Nk: int, D: int) -> Limit:
    """One head in float16: o, lse, and a copy of each input; half of a score matrix would not fit."""
    return Limit(extra_bytes=2 * Nq * D + 4 * Nq + 2 * (Nq + 2 * Nk) * D, launches=1,
                 because="One launch does it all, and o and lse are all the memory it needs. Scores in memory would "
                         f"take {2 * Nq * Nk:,} bytes or more.")


def far_cases(draw: Draw) -> Iterator[Case]:
    """Offsets that 32 bits do not hold. On a GPU they take 9 GB for a moment."""
    inputs = qkv(draw, N=(5, 3), dtype=torch.float16)
    far = {**inputs, "k": spread_out(inputs["k"], axis=2)}
    yield Case(name="keys 2**30 elements apart", inputs=far, last=True)
    inputs = qkv(draw, heads=(3, 3), N=(5, 3), dtype=torch.float16)
    far = {**inputs, "v": spread_out(inputs["v"], axis=1)}
    yield Case(name="heads 2**30 elements apart", inputs=far, last=True)


def gpu_cases(draw: Draw) -> Iterator[Case]:
    """Larger ones, in every dtype that the GPU has."""
    for dtype in draw.float_dtypes:
        name = str(dtype).removeprefix("torch.")
        for D in (64,) if dtype == torch.float32 else (64, 128):
            inputs = qkv(draw, B=2, heads=(8, 2), N=(1000, 1500), D=D, dtype=dtype)
            yield Case(name=f"{name}, D = {D}", inputs=inputs)
            yield Case(name=f"{name}, D = {D}, causal", inputs={**inputs, "causal": True})
        inputs = qkv(draw, heads=(4, 4), N=(1024, 1024), D=64, dtype=dtype, causal=True)
        yield Case(name=f"{name}, whole tiles, causal", inputs=inputs)
