"""Numbers measured on a GPU that the lesson quotes: from results/ where they are, else from the first measurement."""

from __future__ import annotations

from typing import Any

COPY_BAR = "of copy bandwidth, 65,536 x 4,096 bfloat16"
COMPILE_BAR = "against torch.compile's softmax, 65,536 x 4,096 bfloat16"

# TB/s, counting x read once and y written once; cache flushed before each call, median of 12 turns.
# "five operators": PyTorch, bfloat16. "two kernels": one for m and l, one to normalise.
# "one kernel, two loads": a loop over blocks for m and l, then one that loads each block again; best of 4 block sizes.
FIRST = {"copy": 4.17, "fused_softmax": 4.07, "one kernel, two loads": 2.97, "two kernels": 2.57, "torch.compile": 1.74,
         "torch.softmax": 1.29, "five operators": 0.56}
FIRST_SOURCE = "Measured on an NVIDIA H200, torch 2.11, triton 3.6, 29 November 2026."


def softmax_rates() -> tuple[dict[str, float], str]:
    """(TB/s by name for 65,536 x 4,096 bfloat16, where the numbers come from)."""
    from efflab.gpu import results

    copied = results.bar("online_softmax", COPY_BAR, gpu="H200")
    compiled = results.bar("online_softmax", COMPILE_BAR, gpu="H200")
    found = results.load("H200")
    if not (copied and compiled and found and copied.get("tbps") and compiled.get("peer_tbps")):
        return dict(FIRST), FIRST_SOURCE
    again = {"copy": copied["peer_tbps"], "fused_softmax": copied["tbps"], "torch.compile": compiled["peer_tbps"]}
    where = found["chapters"]["online_softmax"]
    source = (f"copy, fused_softmax, torch.compile: efflab bench, {where['gpu']}, torch {where['torch']}, triton "
              f"{where['triton']}, {where['date']}. The others: {FIRST_SOURCE[0].lower()}{FIRST_SOURCE[1:]}")
    return {**FIRST, **again}, source


# TB/s against N, 2**28 bfloat16 numbers, the same day.
FIRST_CURVE = {"sizes": [256, 1024, 4096, 16_384, 32_768, 65_536], "series": {
    "fused_softmax": [1.69, 4.18, 4.08, 3.93, 3.20, 2.75], "clone": [4.15, 4.13, 4.14, 4.14, 4.14, 4.14],
    "compiled_softmax": [4.18, 4.20, 1.74, 1.90, 1.98, 1.95], "torch_softmax": [2.57, 2.67, 1.29, 2.22, 2.27, 2.02]}}


def softmax_curve() -> tuple[dict[str, Any], str]:
    """({"sizes", "series": {name: TB/s at each size}}, where the numbers come from)."""
    from efflab.gpu import results

    found = results.load("H200")
    chapter = found["chapters"].get("online_softmax") if found else None
    if chapter and chapter.get("curves"):
        return chapter["curves"][0], (f"efflab bench, {chapter['gpu']}, torch {chapter['torch']}, triton "
                                      f"{chapter['triton']}, {chapter['date']}.")
    return FIRST_CURVE, FIRST_SOURCE
