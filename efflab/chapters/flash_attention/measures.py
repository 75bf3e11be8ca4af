"""What the compiler and the clock ask of chapter 04's kernels."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch

from efflab.checking import Bar, Draw, XRay
from efflab.gpu.curves import Curve

Arch = Literal["sm_75", "sm_80", "sm_89", "sm_90"]
N = 8192
HEADS = (4, 16)         # B, H: enough programs to fill any GPU


def compiled_for(D: int, dtype: torch.dtype, causal: bool) -> dict[str, Any]:
    """Arguments of real size; the compiler looks at dtypes, strides and alignment alone."""
    q, k, v = (torch.empty((1, 16, 2048, D), dtype=dtype) for _ in range(3))
    return {"q": q, "k": k, "v": v, "causal": causal}


def _xray(arch: Arch, D: int, needs: tuple[str, ...], causal: bool) -> XRay:
    dtype = torch.float16 if arch == "sm_75" else torch.bfloat16
    form = "causal" if causal else "full"
    return XRay(arch=arch, name=f"D = {D}, {form}", inputs=partial(compiled_for, D, dtype, causal), needs=needs)


# A learner waits for these; the tests compile the course's answer for all GPUs, head sizes, masks and dtypes.
XRAYS_PLAIN = (_xray("sm_80", 64, ("mma",), causal=True),)
XRAYS_FAST = (
    _xray("sm_90", 128, ("wgmma",), causal=True),
    _xray("sm_80", 128, ("mma",), causal=True),
    _xray("sm_75", 128, (), causal=True),
)


def _timed(D: int, causal: bool, length: int, draw: Draw) -> dict[str, Any]:
    """Fresh bfloat16 values (float16 below sm_80), made where they are used."""
    generator = torch.Generator(device=draw.device).manual_seed(draw.integer(0, 2**31))
    modern = draw.device.type == "cuda" and torch.cuda.get_device_capability(draw.device) >= (8, 0)
    dtype = torch.bfloat16 if modern else torch.float16
    q, k, v = (torch.randn((*HEADS, length, D), generator=generator, device=draw.device, dtype=dtype) for _ in range(3))
    return {"q": q, "k": k, "v": v, "causal": causal}


def attention_flops(Nq: int, Nk: int, D: int, causal: bool, heads: int) -> float:
    """Two matrix products over the scores that count: half of them under a causal mask."""
    return 4.0 * heads * Nq * Nk * D * (0.5 if causal else 1.0)


def _bar(peer: str, at_least: float, D: int, causal: bool, *, gpu: str | None = "H200", length: int = N,
         stretch: float | None = None) -> Bar:
    B, H = HEADS
    form = "causal" if causal else "full"
    return Bar(name=f"N = {length}, D = {D}, {form}, against {peer}", peer=peer, at_least=at_least, gpu=gpu,
               stretch=stretch, inputs=partial(_timed, D, causal, length),
               flops=attention_flops(length, length, D, causal, B * H), bytes=B * H * length * (4 * D * 2 + 4))


COLUMNS = tuple((D, causal) for D in (64, 128) for causal in (False, True))
BARS = (
    _bar("naive_attention", 3.0, 64, True, gpu=None, length=4096),
    *(_bar("sdpa_flash", 1.35, D, causal) for D, causal in COLUMNS),
    *(_bar("sdpa_cudnn", 0.85, D, causal, stretch=1.0) for D, causal in COLUMNS),
    *(_bar("flex_attention", 1.0, D, causal) for D, causal in COLUMNS),
)



def _curve_inputs(D: int, causal: bool, draw: Draw, length: int) -> dict[str, Any]:
    """The same number of tokens at every length."""
    inputs = _timed(D, causal, length, draw)
    B = max(1, HEADS[0] * N // length)
    return {name: x[:1].expand(B, -1, -1, -1).contiguous() if isinstance(x, torch.Tensor) else x
            for name, x in inputs.items()}


def _curve(D: int, causal: bool) -> Curve:
    def work(length: int) -> float:
        return attention_flops(length, length, D, causal, max(1, HEADS[0] * N // length) * HEADS[1])

    return Curve(
        name=f"D = {D}, {'causal' if causal else 'full'}", axis="N", sizes=(512, 1024, 2048, 4096, 8192, 16384),
        functions=("flash_attention", "flash_attention_fast"),
        peers=("naive_attention", "sdpa_flash", "sdpa_cudnn", "flex_attention"),
        inputs=partial(_curve_inputs, D, causal), work=work)


CURVES = (_curve(64, True), _curve(128, False))
