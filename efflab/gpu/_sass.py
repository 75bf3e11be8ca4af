"""What a compiled kernel needs and uses, read from its machine code (SASS) by the tools in Triton's wheel."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

# Machine instructions, by their first letters. Hopper's warp-group products carry a G: HGMMA, QGMMA, IGMMA.
TENSOR_CORE = re.compile(r"\b[HIDQB]G?MMA\b|\bOMMA\b|\bUTC[A-Z]*MMA\b")
WARP_GROUP = re.compile(r"\b[HIQB]GMMA\b")
BULK_COPY = re.compile(r"\bUTMA(?:LDG|STG|REDG)\b")             # TMA: a descriptor, moved by its own engine
LOCAL_MEMORY = re.compile(r"\b(?:LDL|STL)\b")
BYTES_PER_REGISTER = 4


def read(cubin: bytes, tools: dict[str, str]) -> dict[str, int | bool]:
    """Registers a thread, spilled registers a thread, mma, wgmma, tma of one kernel.

    tools: paths of "cuobjdump" and "nvdisasm". Stack that no instruction touches is no spill.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        usage = _run(tools["cuobjdump"], "--dump-resource-usage", str(path))
        sass = _run(tools["nvdisasm"], "-c", str(path))
    return {**parse_usage(usage, bool(LOCAL_MEMORY.search(sass))), **parse_sass(sass)}


def parse_usage(text: str, touches_local: bool) -> dict[str, int]:
    """Registers and spilled registers a thread, from cuobjdump --dump-resource-usage; the hungriest function counts."""
    registers = [int(n) for n in re.findall(r"\bREG:(\d+)", text)]
    if not registers:
        raise RuntimeError(f"cuobjdump told no register count: {text.strip()[:200]!r}")
    local = max(map(int, re.findall(r"\b(?:STACK|LOCAL):(\d+)", text)), default=0)
    return {"registers": max(registers), "spills": local // BYTES_PER_REGISTER if touches_local else 0}


def parse_sass(text: str) -> dict[str, bool]:
    """Which units a kernel uses, from its disassembly."""
    return {"mma": bool(TENSOR_CORE.search(text)), "wgmma": bool(WARP_GROUP.search(text)),
            "tma": bool(BULK_COPY.search(text))}


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{Path(command[0]).name} failed: {done.stderr.strip()[:300]}")
    return done.stdout
