"""The GPUs that the x-ray compiles for, each by one well-known card."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from efflab.gpu.machine import shared_limit


class UnknownArch(ValueError):
    """The x-ray does not know this architecture; the message says which ones it knows."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """arch: "sm_90". card: the GPU that stands for it. processors: streaming multiprocessors of that card."""

    arch: str
    card: str
    processors: int
    memory_gib: int
    l2_mib: int

    @property
    def capability(self) -> tuple[int, int]:
        digits = self.arch.removeprefix("sm_")
        return int(digits[:-1]), int(digits[-1])

    @property
    def shared_limit(self) -> int:
        """Bytes of shared memory that one program may use."""
        return shared_limit(self.capability)


TARGETS: dict[str, Target] = {
    t.arch: t for t in (
        Target(arch="sm_75", card="Tesla T4", processors=40, memory_gib=16, l2_mib=4),
        Target(arch="sm_80", card="NVIDIA A100-SXM4-80GB", processors=108, memory_gib=80, l2_mib=40),
        Target(arch="sm_89", card="NVIDIA L4", processors=58, memory_gib=24, l2_mib=48),
        Target(arch="sm_90", card="NVIDIA H200", processors=132, memory_gib=141, l2_mib=50),
    )
}


def target(arch: str) -> Target:
    """The target called "sm_80" ("80" and "sm80" are understood too). Raises UnknownArch."""
    name = "sm_" + arch.lower().removeprefix("sm").removeprefix("_").replace(".", "")
    if name not in TARGETS:
        close = difflib.get_close_matches(name, TARGETS, n=1, cutoff=0.0)
        raise UnknownArch(f"The x-ray knows {', '.join(TARGETS)}; got {arch!r}. Did you mean {close[0]}?")
    return TARGETS[name]
