"""Wrong answers that people really give in this chapter, each with its name. They were written before the cases.

Their outputs are compared with a learner's, so they are plain PyTorch and have the exercises' signatures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from efflab.chapters.roofline.mistakes_on_devices import MEDIAN_TIME, SCALE_COPY
from efflab.checking import Mistake

__all__ = ["ATTAINABLE", "BOUND", "COUNT_ATTENTION", "COUNT_MATMUL", "MEDIAN_TIME", "PREDICT_MS", "SCALE_COPY"]


# count_matmul ------------------------------------------------------------------------------------
def _matmul_one_flop(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    return M * N * K, (M * K + K * N + M * N) * bytes_per_element


def _matmul_no_output(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    return 2 * M * N * K, (M * K + K * N) * bytes_per_element


def _matmul_elements(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    return 2 * M * N * K, M * K + K * N + M * N


def _matmul_every_read(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    return 2 * M * N * K, (2 * M * N * K + M * N) * bytes_per_element


def _matmul_wrong_shapes(M: int, N: int, K: int, bytes_per_element: int) -> tuple[int, int]:
    return 2 * M * N * K, (M * N + N * K + M * K + M * K - M * N) * bytes_per_element


COUNT_MATMUL = (
    Mistake(name="one_flop_per_pair", function=_matmul_one_flop,
            sentence="a multiply and its add are counted as one operation; the convention is two"),
    Mistake(name="output_not_written", function=_matmul_no_output,
            sentence="the result C is not counted: its M * N elements have to be written"),
    Mistake(name="elements_not_bytes", function=_matmul_elements,
            sentence="elements are counted in place of bytes"),
    Mistake(name="no_reuse", function=_matmul_every_read,
            sentence="the operands are counted once for every multiplication; here each operand is read once"),
    Mistake(name="output_has_shape_of_a", function=_matmul_wrong_shapes,
            sentence="C is given the shape of A, (M, K); it has (M, N)"),
)


# attainable --------------------------------------------------------------------------------------
def _attainable_no_roof(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    return intensity * bandwidth


def _attainable_max(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    if isinstance(intensity, torch.Tensor):
        return (intensity * bandwidth).clamp(min=peak_flops)
    return max(peak_flops, intensity * bandwidth)


def _attainable_ratio(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    if isinstance(intensity, torch.Tensor):
        return (bandwidth / intensity).clamp(max=peak_flops)
    return min(peak_flops, bandwidth / intensity if intensity else float("inf"))


def _attainable_one_number(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    if isinstance(intensity, torch.Tensor):
        intensity = intensity.max().item()
    return min(peak_flops, intensity * bandwidth)


def _attainable_step(intensity: Any, peak_flops: float, bandwidth: float) -> Any:
    ridge = peak_flops / bandwidth
    if isinstance(intensity, torch.Tensor):
        return torch.where(intensity >= ridge, peak_flops, bandwidth).to(intensity.dtype)
    return peak_flops if intensity >= ridge else bandwidth


ATTAINABLE = (
    Mistake(name="no_roof", function=_attainable_no_roof,
            sentence="the slope goes on for ever: nothing holds the result under peak_flops"),
    Mistake(name="larger_of_the_two", function=_attainable_max,
            sentence="the larger of the two limits is taken; the machine obeys the lower one"),
    Mistake(name="divided_by_intensity", function=_attainable_ratio,
            sentence="bandwidth is divided by the intensity; bytes/s times FLOP/byte gives FLOP/s"),
    Mistake(name="one_number_for_a_tensor", function=_attainable_one_number, recognisable=False,
            sentence="a tensor of intensities gives one number; the limit has to be taken element by element"),
    Mistake(name="bandwidth_is_not_flops", function=_attainable_step,
            sentence="left of the ridge the bandwidth itself is returned, in bytes/s; multiply it by the intensity"),
)


# bound -------------------------------------------------------------------------------------------
def _bound_swapped(intensity: float, peak_flops: float, bandwidth: float) -> str:
    return "compute" if intensity < peak_flops / bandwidth else "memory"


def _bound_ridge_is_memory(intensity: float, peak_flops: float, bandwidth: float) -> str:
    return "memory" if intensity <= peak_flops / bandwidth else "compute"


def _bound_upside_down(intensity: float, peak_flops: float, bandwidth: float) -> str:
    return "memory" if intensity < bandwidth / peak_flops else "compute"


BOUND = (
    Mistake(name="swapped", function=_bound_swapped,
            sentence="the two sides are swapped: low intensity is where memory is the limit"),
    Mistake(name="ridge_counted_as_memory", function=_bound_ridge_is_memory,
            sentence="the ridge itself is counted as memory; it is compute, for there the peak is just reached"),
    Mistake(name="ridge_upside_down", function=_bound_upside_down,
            sentence="the ridge is taken as bandwidth / peak_flops; it is peak_flops / bandwidth, in FLOP per byte"),
)


# count_attention ---------------------------------------------------------------------------------
def _attention(variant: str) -> Callable[..., tuple[int, int]]:
    """One plain count with one fault, named by `variant`."""

    def count_attention(B: int, Hq: int, Hkv: int, Nq: int, Nk: int, D: int, bytes_per_element: int,
                        causal: bool = False, fused: bool = True) -> tuple[int, int]:
        shift = 0 if variant == "top_left" else Nk - Nq
        pairs = 0
        for i in range(Nq):
            visible = i + shift + (0 if variant == "no_diagonal" else 1)
            visible = visible if variant == "no_clamp" else max(0, min(visible, Nk))
            pairs += visible if causal and variant != "causal_ignored" else Nk
        if variant == "causal_is_half" and causal:
            pairs = Nq * Nk // 2
        flops = (2 if variant == "one_product" else 4) * B * (Hkv if variant == "kv_heads" else Hq) * D * pairs
        kv_heads = Hq if variant == "kv_not_shared" else Hkv
        elements = B * D * (2 * Hq * Nq + 2 * kv_heads * Nk)
        if variant == "output_not_written":
            elements = B * D * (Hq * Nq + 2 * kv_heads * Nk)
        scores = B * Hq * Nq * Nk
        if variant == "visible_scores_only":
            scores = B * Hq * pairs
        if variant == "scores_in_fused" or not fused:
            elements += (2 if variant == "scores_written_once" else 4) * scores
        return flops, elements * bytes_per_element

    count_attention.__name__ = f"count_attention_{variant}"
    return count_attention


COUNT_ATTENTION = tuple(
    Mistake(name=name, sentence=sentence, function=_attention(name)) for name, sentence in (
        ("one_product", "only one of the two products, q kᵀ and p v, is counted"),
        ("causal_ignored", "masked pairs are counted as work: with causal=True only the visible ones are computed"),
        ("causal_is_half", "causal is taken as exactly half; the diagonal counts, and Nq may differ from Nk"),
        ("top_left", "the causal mask is aligned top-left; here the last query sees every key (bottom-right)"),
        ("no_diagonal", "the diagonal is masked too; query i sees keys j ≤ i + Nk − Nq, that one included"),
        ("no_clamp", "the first of Nq > Nk queries are given a negative number of keys; none is the least"),
        ("kv_heads", "work is counted for Hkv heads; every one of the Hq query heads has its own scores"),
        ("kv_not_shared", "keys and values are counted once for each query head; there are only Hkv heads of them"),
        ("output_not_written", "o is not counted: it is written, Nq × D for each query head"),
        ("scores_written_once", "two passes over the scores are counted; S and P are both written and read: four"),
        ("scores_in_fused", "the fused form is charged for S and P; they never leave the chip"),
        ("visible_scores_only", "S and P are counted for visible pairs only; unfused, all of Nq × Nk is stored"),
    )
)


# predict_ms --------------------------------------------------------------------------------------
def _predict(variant: str) -> Callable[..., float]:
    def predict_ms(flops: float, bytes: float, machine: dict[str, float]) -> float:
        compute, memory = flops / machine["peak_flops"], bytes / machine["bandwidth"]
        seconds = {"sum": compute + memory, "shorter": min(compute, memory), "compute_only": compute,
                   "memory_only": memory}.get(variant, max(compute, memory))
        launch = {"launch_forgotten": 0.0, "launch_as_ms": machine["launch_us"],
                  "launch_as_seconds": machine["launch_us"] * 1e3}.get(variant, machine["launch_us"] * 1e-3)
        if variant == "launch_is_a_floor":
            return max(seconds * 1e3, launch)
        return seconds * (1.0 if variant == "seconds" else 1e3) + launch

    predict_ms.__name__ = f"predict_ms_{variant}"
    return predict_ms


def _predict_free_without_flops(flops: float, bytes: float, machine: dict[str, float]) -> float:
    if flops == 0:
        return machine["launch_us"] * 1e-3
    rate = min(machine["peak_flops"], flops / bytes * machine["bandwidth"])
    return flops / rate * 1e3 + machine["launch_us"] * 1e-3


PREDICT_MS = (
    *(Mistake(name=name, sentence=sentence, function=_predict(name)) for name, sentence in (
        ("sum", "the two times are added; loads and arithmetic overlap, so the longer one counts"),
        ("shorter", "the shorter of the two times is taken; the longer one is the limit"),
        ("compute_only", "only the arithmetic is timed; the bytes may take longer"),
        ("memory_only", "only the bytes are timed; the arithmetic may take longer"),
        ("seconds", "seconds are returned for the roofline part; multiply by 1000"),
        ("launch_forgotten", "the launch is left out; for small operations it is nearly everything"),
        ("launch_as_ms", "launch_us is added as milliseconds; it is in microseconds"),
        ("launch_is_a_floor", "the launch is used as a lower limit; it comes on top of the roofline time"),
    )),
    Mistake(name="no_flops_no_time", function=_predict_free_without_flops,
            sentence="an operation without FLOPs is taken to be free; its bytes still have to move"),
)
