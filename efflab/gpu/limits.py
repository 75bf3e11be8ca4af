"""What a GPU cannot beat: peak FLOP/s of dense half-precision products and memory bandwidth.

Data sheets, dense numbers without sparsity; the higher of two where cards of one name differ, because a
time is refused only when no such card could reach it.
"""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.95       # a clock's own error: refuse only what is clearly below the limit


@dataclass(frozen=True, kw_only=True)
class Peak:
    """flops: FLOP/s. bandwidth: bytes/s. source: "data sheet" or "measured"."""

    flops: float
    bandwidth: float
    source: str


_SHEET: tuple[tuple[str, float, float], ...] = (        # part of the name, TFLOP/s, GB/s; first match counts
    ("B200", 2500, 8000), ("GH200", 990, 4900), ("H200", 990, 4800), ("H100", 990, 3350), ("H800", 990, 3350),
    ("A100", 312, 2039), ("A800", 312, 2039), ("L40S", 366, 864), ("L40", 181, 864), ("L4", 121, 300),
    ("A10", 125, 600), ("A6000", 155, 768), ("T4", 65, 320), ("V100", 125, 1134),
    ("RTX 5090", 420, 1792), ("RTX 4090", 331, 1008), ("RTX 4080", 209, 736), ("RTX 3090", 160, 1008),
)


def peak(gpu_name: str) -> Peak | None:
    """The data sheet's limits for a GPU of this name; None for one that is not in the table."""
    for part, tflops, gbps in _SHEET:
        if part in gpu_name:
            return Peak(flops=tflops * 1e12, bandwidth=gbps * 1e9, source="data sheet")
    return None


def measured_peak() -> Peak:
    """Limits of this machine's GPU from a copy and a product, with room above both (a copy reaches about 90% of
    a data sheet's bandwidth, a product about 75% of its FLOP/s)."""
    import torch

    from efflab.gpu.timing import copy_bandwidth, median_ms

    def operands() -> list[torch.Tensor]:
        return [torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2)]

    ms = median_ms(torch.mm, operands, sets=2).ms
    return Peak(flops=2 * 4096**3 / (ms * 1e-3) * 1.6, bandwidth=copy_bandwidth(size=1 << 28) * 1.3, source="measured")


def fastest_ms(flops: float, bytes_moved: float, limits: Peak, l2_bytes: int = 0) -> float:
    """The shortest time in ms that `limits` allow. What fits in L2 may not have reached memory when the clock stops."""
    moving = max(0.0, bytes_moved - l2_bytes) / limits.bandwidth
    return max(flops / limits.flops, moving) * 1e3 * MARGIN
