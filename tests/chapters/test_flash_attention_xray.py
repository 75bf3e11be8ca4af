"""Chapter 04's kernels, compiled for every GPU, head size, mask and dtype that the check has no time for.

Some 40 seconds of one core, less what is stored from an earlier run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch

from efflab import course
from efflab.chapters.flash_attention.measures import XRAYS_FAST, XRAYS_PLAIN, Arch, compiled_for
from efflab.checking import Kernel, XRay
from efflab.gpu import bench, xray

pytestmark = pytest.mark.skipif(xray.available() is not None, reason=str(xray.available()))

ARCHES: tuple[Arch, ...] = ("sm_75", "sm_80", "sm_89", "sm_90")
NEEDS = {"sm_75": (), "sm_80": ("mma",), "sm_89": ("mma",)}        # Triton gives a T4 no tensor cores
COLUMNS = tuple(product((64, 128), (False, True)))                  # D, causal
FORM = {False: "full", True: "causal"}


def matrix(hopper: str) -> dict[str, XRay]:
    """By name. Each GPU from sm_80 on sees both dtypes with both head sizes and both masks. hopper: sm_90's needs."""
    found: dict[str, XRay] = {}
    for arch, (D, causal) in product(ARCHES, COLUMNS):
        half = arch == "sm_75" or causal == (D == 64)
        dtype = torch.float16 if half else torch.bfloat16
        name = f"{arch} D = {D} {FORM[causal]} {'float16' if half else 'bfloat16'}"
        found[name] = XRay(arch=arch, name=name, needs=NEEDS.get(arch, (hopper,)),
                           inputs=partial(compiled_for, D, dtype, causal))
    return found


MATRIX = {"flash_attention": matrix("mma"), "flash_attention_fast": matrix("wgmma")}


@pytest.fixture(scope="module")
def told() -> dict[tuple[str, str], list[xray.KernelXRay]]:
    """By function and name of the x-ray; one process for each function."""
    found: dict[tuple[str, str], list[xray.KernelXRay]] = {}
    for function, xrays in MATRIX.items():
        kernel = Kernel(xrays=tuple(xrays.values()))
        exercise = replace(course.find_exercise(f"flash_attention.{function}"), kernel=kernel)
        seen = xray.exercise_xrays(exercise, bench.solution_path(exercise))
        found |= {(function, x.name): kernels for x, kernels in seen}
    return found


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, xrays in MATRIX.items() for name in xrays])
def test_a_kernel_compiles_fits_and_does_not_spill(
        function: str, name: str, told: dict[tuple[str, str], list[xray.KernelXRay]]) -> None:
    kernels = told[function, name]
    assert xray.judge_one(MATRIX[function][name], kernels) == []
    assert len(kernels) == 1
    assert kernels[0].registers <= 255


def test_the_check_has_time_for_what_it_asks() -> None:
    assert len(XRAYS_PLAIN) + len(XRAYS_FAST) <= 4
    assert {x.arch for x in XRAYS_FAST} == {"sm_75", "sm_80", "sm_90"}
