"""Chapter 01's seven exercises: counting work and traffic, the roof, a stopwatch, a copy kernel, a prediction."""

from __future__ import annotations

from efflab.chapters.roofline import cases, mistakes
from efflab.checking import ALL_BUT_MAKING, Exercise, Forbidden, Output

CHAPTER = "roofline"
_COUNTS = (Output("flops"), Output("bytes"))

EXERCISES = (
    Exercise(
        chapter=CHAPTER, name="count_matmul", summary="Count the FLOPs and the bytes of C = A @ B.",
        reference=cases.count_matmul_reference, cases=cases.count_matmul_cases, outputs=_COUNTS,
        mistakes=mistakes.COUNT_MATMUL,
        points=2, minutes=5, difficulty="easy",
        hints=("How many numbers does C have, and how many multiplications and additions does one of them take?",
               "A multiply-add is two FLOPs. For the bytes, count the elements of all three matrices.",
               "M * N results of K multiply-adds each; A has M * K elements, B has K * N, C has M * N."),
    ),
    Exercise(
        chapter=CHAPTER, name="attainable", summary="Return the FLOP/s that the roofline allows at an intensity.",
        reference=cases.attainable_reference, cases=cases.attainable_cases, outputs=(Output("flops_per_second"),),
        mistakes=mistakes.ATTAINABLE, points=3, minutes=5, difficulty="easy",
        hints=("Two things can hold you up: the arithmetic and the bytes. Whichever is slower wins.",
               "FLOP/byte times byte/s is FLOP/s: that is the slope. Then it must not pass the peak.",
               "For numbers, min(a, b). For tensors, torch.clamp(slope, max=peak_flops) works element by element."),
    ),
    Exercise(
        chapter=CHAPTER, name="bound", summary='Say whether "memory" or "compute" is the limit.',
        reference=cases.bound_reference, cases=cases.bound_cases, outputs=(Output("limit"),), mistakes=mistakes.BOUND,
        points=2, minutes=3, difficulty="easy",
        hints=("Where do the slope and the roof meet?",
               "At intensity = peak_flops / bandwidth. At the ridge itself the answer is \"compute\"."),
    ),
    Exercise(
        chapter=CHAPTER, name="count_attention", summary="Count the FLOPs and the bytes of attention, fused or not.",
        reference=cases.count_attention_reference, cases=cases.count_attention_cases, outputs=_COUNTS,
        mistakes=mistakes.COUNT_ATTENTION, points=6, minutes=15, difficulty="medium",
        hints=("Three counts, one at a time: the query-key pairs that are computed, FLOPs for a pair, bytes.",
               "With causal=True query i sees i + Nk - Nq + 1 keys, but never fewer than 0 nor more than Nk. A pair "
               "costs 2 * D FLOPs in q kᵀ and 2 * D in p v.",
               "q and o have B * Hq * Nq * D elements, k and v have B * Hkv * Nk * D. Unfused adds four passes over "
               "B * Hq * Nq * Nk: S written, S read, P written, P read; the whole matrix, also when causal."),
    ),
    Exercise(
        chapter=CHAPTER, name="median_time", summary="Time a function on a device that works on its own.",
        reference=cases.median_time_reference, cases=cases.median_time_cases,
        outputs=(Output("seconds"), Output("calls before the first reading"), Output("events")),
        mistakes=mistakes.MEDIAN_TIME, points=6, minutes=15, difficulty="medium",
        hints=("A reading tells something only when nothing is still running. Where must you wait?",
               "Warm up. Then for each repeat: flush if there is one, wait, read, run, wait, read.",
               "statistics.median gives the middle one, or the mean of the middle two."),
    ),
    Exercise(
        chapter=CHAPTER, name="scale_copy", summary="Write alpha * x into a new tensor with a Triton kernel.",
        reference=cases.scale_copy_reference, baseline=cases.scale_copy_baseline, cases=cases.scale_copy_cases,
        outputs=(Output("y", "x"),), mistakes=mistakes.SCALE_COPY, points=8, minutes=25, difficulty="medium",
        forbidden=Forbidden(
            operators=ALL_BUT_MAKING,
            instead="Make y with torch.empty and let the kernel do all reading, scaling and writing."),
        kernel=cases.SCALE_COPY_KERNEL,
        hints=("One program does BLOCK elements of y, number i = program * BLOCK + 0 … BLOCK - 1. y is contiguous, so "
               "i is also its place in memory. Where does element i of x lie?",
               "Take i apart from the last axis to the first: i % shape[axis] is the index on that axis, i // "
               "shape[axis] is what remains. Each index moves strides[axis] elements.",
               "Load at x_ptr + offset under the mask i < numel, go to float32, multiply, convert to "
               "y_ptr.dtype.element_ty, store at y_ptr + i under the same mask. The grid is "
               "triton.cdiv(x.numel(), BLOCK) programs."),
    ),
    Exercise(
        chapter=CHAPTER, name="predict_ms", summary="Predict a time in milliseconds from FLOPs, bytes and a machine.",
        reference=cases.predict_ms_reference, cases=cases.predict_ms_cases, outputs=(Output("ms"),),
        mistakes=mistakes.PREDICT_MS,
        points=3, minutes=5, difficulty="easy",
        hints=("How long would the arithmetic take alone? And the bytes alone? They overlap.",
               "The longer of the two, in milliseconds, plus the launch. Mind the units: seconds, µs, ms.",
               "max(flops / peak_flops, bytes / bandwidth) * 1e3 + launch_us * 1e-3"),
    ),
)
