"""Chapter 01's references and the cases that wrong answers do not survive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from efflab.chapters.roofline.drive import LAUNCH, TICK
from efflab.checking import Bar, Case, Draw, Kernel, Limit, XRay


# count_matmul ------------------------------------------------------------------------------------
def count_matmul_reference(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    dot_products = M * N
    a, b, c = M * K, K * N, M * N
    return dot_products * K * 2, sum(bytes_per_element * matrix for matrix in (a, b, c))


def count_matmul_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, M: int, N: int, K: int, bytes_per_element: int) -> Case:
        return Case(name=name, exact=True, inputs={"M": M, "N": N, "K": K, "bytes_per_element": bytes_per_element})

    yield case("small enough for paper", 2, 3, 5, 4)
    yield case("random sizes", draw.integer(6, 40), draw.integer(50, 90), draw.integer(100, 200), 2)
    yield case("one row (M = 1): a token through a weight", 1, 28672, 8192, 2)
    yield case("a column times a row (K = 1)", 33, 17, 1, 4)
    yield case("beyond what 64-bit floats hold exactly", 3 * 10**5 + 1, 2 * 10**5 + 3, 10**6 + 7, 1)


# attainable and bound ----------------------------------------------------------------------------
def attainable_reference(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    slope = torch.as_tensor(intensity) * bandwidth
    roof = torch.where(slope < peak_flops, slope, torch.full_like(slope, peak_flops))
    return roof if isinstance(intensity, torch.Tensor) else float(slope if slope < peak_flops else peak_flops)


def _random_machine(draw: Draw) -> dict[str, float]:
    """Peak and bandwidth whose ridge is a whole number, so that "at the ridge" is exact."""
    bandwidth = draw.integer(200, 5000) * 1e9
    return {"peak_flops": bandwidth * draw.integer(20, 400), "bandwidth": bandwidth}


def attainable_cases(draw: Draw) -> Iterator[Case]:
    machine = _random_machine(draw)
    ridge = machine["peak_flops"] / machine["bandwidth"]
    for name, intensity in (("under the slope", 0.37 * ridge), ("under the roof", 3.1 * ridge),
                            ("at the ridge", ridge), ("intensity 0: a copy", 0.0)):
        yield Case(name=name, inputs={"intensity": intensity, **machine})
    yield Case(name="intensity an int", inputs={"intensity": 3, **machine})
    points = draw.uniform(4, 5, low=0.01, high=2.0, dtype=torch.float64) * ridge
    yield Case(name="a tensor of intensities", inputs={"intensity": points, **machine})
    edges = torch.tensor([0.0, ridge / 2, ridge, 2 * ridge, 1e6 * ridge], dtype=torch.float32, device=draw.device)
    yield Case(name="a float32 tensor with 0 and the ridge", inputs={"intensity": edges, **machine})


def bound_reference(intensity: Any, peak_flops: float, bandwidth: float) -> str:
    seconds_a_byte, seconds_a_flop = 1.0 / bandwidth, 1.0 / peak_flops
    margin = float(intensity) * seconds_a_flop / seconds_a_byte
    return "memory" if margin < 1.0 - 1e-12 else "compute"


def bound_cases(draw: Draw) -> Iterator[Case]:
    machine = _random_machine(draw)
    ridge = machine["peak_flops"] / machine["bandwidth"]
    for name, intensity in (("under the slope", 0.37 * ridge), ("under the roof", 3.1 * ridge), ("at the ridge", ridge),
                            ("just under the ridge", ridge * (1 - 1e-6)), ("intensity 0: a copy", 0.0)):
        yield Case(name=name, inputs={"intensity": intensity, **machine})
    zero_dim = torch.tensor(2 * ridge, dtype=torch.float64, device=draw.device)
    yield Case(name="a tensor with one element", inputs={"intensity": zero_dim, **machine})
    yield Case(name="a machine with more bandwidth than FLOP/s",
               inputs={"intensity": 0.5, "peak_flops": 1.0, "bandwidth": 4.0})


# count_attention ---------------------------------------------------------------------------------
def count_attention_reference(B: int, Hq: int, Hkv: int, Nq: int, Nk: int, D: int, bytes_per_element: int,
                              causal: bool = False, fused: bool = True) -> tuple[int, int]:
    visible = torch.ones(Nq, Nk, dtype=torch.bool)
    if causal:
        visible = visible.tril(Nk - Nq)                                 # bottom-right
    pairs = int(visible.sum())
    two_products = 2 * (2 * D * pairs) * Hq * B
    q = o = (B, Hq, Nq, D)
    k = v = (B, Hkv, Nk, D)
    scores = (B, Hq, Nq, Nk)
    passes = [q, k, v, o] + ([] if fused else 4 * [scores])             # S out and in, P out and in
    return two_products, bytes_per_element * sum(torch.Size(shape).numel() for shape in passes)


def count_attention_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, B: int, Hq: int, Hkv: int, Nq: int, Nk: int, D: int, bytes_per_element: int = 2,
             **options: bool) -> Case:
        sizes = {"B": B, "Hq": Hq, "Hkv": Hkv, "Nq": Nq, "Nk": Nk, "D": D, "bytes_per_element": bytes_per_element}
        return Case(name=name, exact=True, inputs={**sizes, **options})

    yield case("small enough for paper", 1, 1, 1, 2, 4, 8)
    some = draw.integer(40, 60)
    yield case("random sizes, fused", draw.integer(2, 5), 6, 2, some, draw.integer(70, 99), 16)
    yield case("random sizes, unfused", draw.integer(2, 5), 6, 2, some, draw.integer(70, 99), 16, fused=False)
    yield case("causal, square", 2, 3, 3, some, some, 8, causal=True)
    yield case("causal, more keys than queries", 2, 4, 2, 5, 19, 8, causal=True)
    yield case("causal, more queries than keys", 2, 4, 1, 19, 5, 8, 4, causal=True)
    yield case("causal, unfused", 3, 4, 2, 7, 12, 16, 2, causal=True, fused=False)
    yield case("decode: one query, causal", 3, 32, 8, 1, 1000, 128, causal=True)


# median_time -------------------------------------------------------------------------------------
def median_time_reference(fn: Any, *, clock: Any, synchronize: Any, warmup: int = 3, repeats: int = 10,
                          flush: Any = None) -> float:
    """Only for its signature: every case has its own `expect`, computed from the durations."""
    raise TypeError("median_time is judged on a fake device: see expected_on_fake_device")


def expected_on_fake_device(*, flush: bool, options: dict[str, int], flush_takes: int, first: int, pending: int,
                            cold: list[int], warm: list[int]) -> Any:
    """What the durations (in ticks) say, without running a stopwatch."""
    warmup, repeats = options.get("warmup", 3), options.get("repeats", 10)
    takes = cold if flush else warm
    took = [takes[i % len(takes)] * TICK + LAUNCH + (first * TICK if i == 0 else 0.0)
            for i in range(warmup, warmup + repeats)]
    line = ("flush " if flush else "") + "synchronize clock run synchronize clock"
    middle = torch.tensor(took, dtype=torch.float64).quantile(0.5, interpolation="midpoint").item()
    return middle, warmup, [line] * repeats


def median_time_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, flush: bool, **options: int) -> Case:
        cold = [draw.integer(2000, 9000) for _ in range(13)]
        return Case(
            name=name, exact=True, drive="efflab.chapters.roofline.drive:time_on_fake_device",
            expect=expected_on_fake_device,
            inputs={"flush": flush, "options": options, "flush_takes": draw.integer(10_000, 12_000),
                    "first": draw.integer(50_000, 90_000), "pending": draw.integer(20_000, 30_000),
                    "cold": cold, "warm": [t // 2 - draw.integer(0, 300) for t in cold]})

    yield case("defaults, with a flush", True)
    yield case("defaults, without a flush", False)
    yield case("an odd number of repeats", True, warmup=2, repeats=5)
    yield case("an even number of repeats", False, warmup=2, repeats=4)
    yield case("no warm-up", True, warmup=0, repeats=3)
    yield case("one repeat, other work still queued", False, warmup=0, repeats=1)


# scale_copy --------------------------------------------------------------------------------------
def scale_copy_reference(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return torch.einsum("...,->...", x, torch.tensor(alpha, dtype=x.dtype, device=x.device))


def scale_copy_baseline(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return (x.float() * alpha).to(x.dtype)


def scale_copy_cases(draw: Draw) -> Iterator[Case]:
    def case(name: str, x: torch.Tensor, alpha: float | None = None) -> Case:
        size = x.numel() * x.element_size()
        limit = Limit(extra_bytes=size, launches=1,
                      because="One launch writes y, and y is all it needs: a contiguous copy of x made first is a "
                              "second trip through memory.")
        return Case(name=name, inputs={"x": x, "alpha": draw.number(1.5, 3.0) if alpha is None else alpha}, limit=limit)

    yield case("one element", draw.normal(1))
    yield case("1000 elements", draw.normal(1000))
    yield case("2¹² + 1 elements", draw.normal(4097))
    yield case("transposed", draw.normal(37, 50, layout="transposed"))
    yield case("part of each row", draw.normal(9, 33, layout="sliced"))
    yield case("one row, expanded", draw.normal(5, 33, layout="expanded"))
    yield case("four axes, permuted", draw.normal(3, 4, 5, 6).permute(2, 0, 3, 1))
    yield case("every second element", draw.normal(200)[::2])
    for dtype in draw.float_dtypes[1:]:
        yield case(f"{str(dtype).removeprefix('torch.')}, offset", draw.normal(1030, dtype=dtype, layout="offset"))
    yield case("float16, alpha beyond float16", draw.normal(3, 70, dtype=torch.float16, scale=1e-3), alpha=3e5)
    yield case("alpha 0", draw.normal(65), alpha=0.0)


def _copied(size: int, dtype: torch.dtype) -> Mapping[str, Any]:
    return {"x": torch.empty(size, dtype=dtype), "alpha": 1.5}


def _bar_inputs(draw: Draw) -> Mapping[str, Any]:
    return {"x": draw.normal(2**26), "alpha": 1.5}


def _of_clone(inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"x": inputs["x"]}


SCALE_COPY_KERNEL = Kernel(
    xrays=(
        XRay(arch="sm_75", name="2²⁴ float16", inputs=lambda: _copied(2**24, torch.float16)),
        XRay(arch="sm_80", name="2²⁴ bfloat16", inputs=lambda: _copied(2**24, torch.bfloat16)),
        XRay(arch="sm_89", name="4096 × 4096 float16, transposed",
             inputs=lambda: {"x": torch.empty(4096, 4096, dtype=torch.float16).T, "alpha": 1.5}),
        XRay(arch="sm_90", name="2²⁴ float32", inputs=lambda: _copied(2**24, torch.float32)),
    ),
    bars=(
        Bar(name="256 MiB of float32", peer="clone", at_least=0.9, stretch=1.0, inputs=_bar_inputs,
            peer_inputs=_of_clone, bytes=2.0 * 4 * 2**26),
    ),
)


# predict_ms --------------------------------------------------------------------------------------
def predict_ms_reference(flops: float, bytes: float, machine: Mapping[str, float]) -> float:
    limits = torch.tensor([flops / machine["peak_flops"], bytes / machine["bandwidth"]], dtype=torch.float64)
    return float(1e3 * limits.max()) + machine["launch_us"] / 1000.0


def predict_ms_cases(draw: Draw) -> Iterator[Case]:
    machine = {**_random_machine(draw), "launch_us": draw.number(3.0, 12.0)}
    peak, bandwidth = machine["peak_flops"], machine["bandwidth"]

    def case(name: str, flops: float, bytes: float) -> Case:
        return Case(name=name, inputs={"flops": flops, "bytes": bytes, "machine": machine})

    yield case("limited by memory", 1e-5 * peak, 4e-5 * bandwidth)
    yield case("limited by compute", 7e-5 * peak, 2e-5 * bandwidth)
    yield case("a copy: no FLOPs at all", 0, 3e-4 * bandwidth)
    yield case("a handful of numbers: mostly launch", 1000, 8000)
    yield case("both limits equal", 1e-3 * peak, 1e-3 * bandwidth)
    yield Case(name="launches for free", inputs={"flops": peak, "bytes": 2 * bandwidth,
                                                 "machine": {**machine, "launch_us": 0.0}})
