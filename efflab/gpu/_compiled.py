"""What a compiled kernel needs and uses, read from its PTX and from its binary by the tools in Triton's wheel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

# Instructions in PTX. Tensor cores: Ampere's mma.sync, Hopper's warp-group form, Blackwell's tcgen05.
TENSOR_CORE = re.compile(r"\b(?:mma\.sync|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b")
WARP_GROUP = re.compile(r"\bwgmma\.mma_async\b")
TMA = re.compile(r"\bcp(?:\.reduce)?\.async\.bulk\.tensor\b")       # a tile, by descriptor, moved by its own engine
LOCAL_MEMORY = re.compile(r"\b(?:LDL|STL)\b")                       # in machine code (SASS)
BYTES_PER_REGISTER = 4


def read(ptx: str, cubin: bytes, tools: dict[str, str]) -> dict[str, int | bool]:
    """Registers a thread, spilled registers a thread, mma, wgmma, tma of one kernel.

    tools: paths of "cuobjdump" and "nvdisasm". Stack that no instruction touches is no spill.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        registers, local_bytes = parse_usage(_run(tools["cuobjdump"], "--dump-resource-usage", str(path)))
        if local_bytes and not LOCAL_MEMORY.search(_run(tools["nvdisasm"], "-c", str(path))):
            local_bytes = 0
    return {"registers": registers, "spills": local_bytes // BYTES_PER_REGISTER, **parse_ptx(ptx)}


def parse_usage(text: str) -> tuple[int, int]:
    """Registers and bytes of stack and local memory a thread, from cuobjdump --dump-resource-usage."""
    registers = [int(n) for n in re.findall(r"\bREG:(\d+)", text)]
    if not registers:
        raise RuntimeError(f"cuobjdump told no register count: {text.strip()[:200]!r}")
    return max(registers), max(map(int, re.findall(r"\b(?:STACK|LOCAL):(\d+)", text)), default=0)


def parse_ptx(text: str) -> dict[str, bool]:
    """Which units a kernel uses."""
    return {"mma": bool(TENSOR_CORE.search(text)), "wgmma": bool(WARP_GROUP.search(text)),
            "tma": bool(TMA.search(text))}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[:300]}")
    return done.stdout
