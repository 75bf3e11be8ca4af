"""What NVIDIA's data sheets say about seven GPUs: peaks without sparsity, bandwidth, what lies on the chip.

Data sheets print tensor-core peaks "with sparsity", twice the dense number, from the A100 on: halved here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SHARED_BYTES_PER_CLOCK = 128     # of one SM: 32 banks of 4 bytes (CUDA C++ programming guide, "Shared memory")


@dataclass(frozen=True, kw_only=True)
class Chip:
    """peak: dense FLOP/s in float16 or bfloat16 on tensor cores, float32 accumulator. peak_fp32: without tensor cores.
    bandwidth: of memory, bytes/s. sms: processors. lanes: float32 lanes of one of them. shared_kib: shared memory of
    one SM, program_kib: of one program at most. l2_mib: level-2 cache. arch: compute capability as triton names it."""

    name: str
    arch: str
    peak: float
    peak_fp32: float
    bandwidth: float
    memory_gb: int
    sms: int
    lanes: int
    shared_kib: int
    program_kib: int
    l2_mib: int
    source: str

    @property
    def ridge(self) -> float:
        """FLOP per byte where slope and roof meet, in 16 bits."""
        return self.peak / self.bandwidth

    @property
    def triton_peak(self) -> float:
        """What tl.dot can reach in 16 bits: Triton 3.3 and newer use tensor cores from sm_80 on."""
        return self.peak if int(self.arch[3:]) >= 80 else self.peak_fp32

    @property
    def register_bandwidth(self) -> float:
        """Bytes/s, all SMs: a float32 multiply-add (2 FLOPs) reads three registers and writes one, of 4 bytes."""
        return self.peak_fp32 / 2 * 4 * 4

    @property
    def shared_bandwidth(self) -> float:
        """Bytes/s, all SMs, at the clock that peak_fp32 implies."""
        clock = self.peak_fp32 / (2 * self.lanes * self.sms)
        return SHARED_BYTES_PER_CLOCK * self.sms * clock

    def as_machine(self, bits: int = 16, launch_us: float = 5.0) -> Mapping[str, float]:
        """The dict that predict_ms takes. launch_us: a usual value, no data sheet has it."""
        return {"peak_flops": self.peak if bits == 16 else self.peak_fp32, "bandwidth": self.bandwidth,
                "launch_us": launch_us}


_ADA = "NVIDIA Ada GPU Architecture white paper, appendix A"
CHIPS: tuple[Chip, ...] = (
    Chip(name="T4", arch="sm_75", peak=65e12, peak_fp32=8.1e12, bandwidth=320e9, memory_gb=16, sms=40, lanes=64,
         shared_kib=64, program_kib=64, l2_mib=4,
         source="NVIDIA T4 data sheet (2019); Turing white paper"),
    Chip(name="L4", arch="sm_89", peak=121e12, peak_fp32=30.3e12, bandwidth=300e9, memory_gb=24, sms=58, lanes=128,
         shared_kib=100, program_kib=99, l2_mib=48,
         source="NVIDIA L4 data sheet (2023): 242 TFLOP/s with sparsity"),
    Chip(name="RTX 4090", arch="sm_89", peak=165.2e12, peak_fp32=82.6e12, bandwidth=1008e9, memory_gb=24, sms=128,
         lanes=128, shared_kib=100, program_kib=99, l2_mib=72, source=_ADA),
    Chip(name="A100 40 GB", arch="sm_80", peak=312e12, peak_fp32=19.5e12, bandwidth=1555e9, memory_gb=40, sms=108,
         lanes=64, shared_kib=164, program_kib=163, l2_mib=40, source="NVIDIA A100 data sheet (2020)"),
    Chip(name="A100 80 GB", arch="sm_80", peak=312e12, peak_fp32=19.5e12, bandwidth=2039e9, memory_gb=80, sms=108,
         lanes=64, shared_kib=164, program_kib=163, l2_mib=40, source="NVIDIA A100 80 GB data sheet, SXM (2021)"),
    Chip(name="H100 SXM", arch="sm_90", peak=989e12, peak_fp32=67e12, bandwidth=3350e9, memory_gb=80, sms=132,
         lanes=128, shared_kib=228, program_kib=227, l2_mib=50,
         source="NVIDIA H100 data sheet (2023): 1,979 TFLOP/s with sparsity"),
    Chip(name="H200", arch="sm_90", peak=989e12, peak_fp32=67e12, bandwidth=4800e9, memory_gb=141, sms=132, lanes=128,
         shared_kib=228, program_kib=227, l2_mib=60,
         source="NVIDIA H200 data sheet (2024): 1,979 TFLOP/s with sparsity"),
)


def chip(name: str) -> Chip:
    """The chip of this name."""
    for each in CHIPS:
        if each.name == name:
            return each
    raise LookupError(f"no chip is called {name!r}; there are {', '.join(c.name for c in CHIPS)}")
