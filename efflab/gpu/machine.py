"""What this machine can do, in one line, and Triton's interpreter where there is no GPU.

Cheap: torch is imported, triton is not. `ensure_interpreter` must run before triton is imported, because
triton decides at import whether its own helpers (tl.cdiv, tl.zeros, …) are interpreted or compiled.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from dataclasses import dataclass

import torch

from efflab.gpu.versions import bad_pairs

# Shared memory one program may use, in KiB, by compute capability (CUDA C++ programming guide, "Compute capabilities").
SHARED_KIB: dict[tuple[int, int], int] = {
    (7, 0): 96, (7, 2): 96, (7, 5): 64, (8, 0): 163, (8, 6): 99, (8, 7): 163, (8, 9): 99,
    (9, 0): 227, (10, 0): 227, (10, 3): 227, (12, 0): 99, (12, 1): 99,
}
TENSOR_CORES_FROM = (8, 0)      # triton >= 3.3 compiles tl.dot to tensor cores from here on


@dataclass(frozen=True, kw_only=True)
class Machine:
    """name: the GPU's, or "no GPU". capability: (major, minor). memory_bytes, shared_bytes: of the GPU, 0 without one;
    shared_bytes is what one program may use. torch, triton: versions, None where missing.
    interpreted: kernels run in Triton's interpreter. dtypes: the floats kernels can use here. note: what to know."""

    name: str
    capability: tuple[int, int] | None
    has_gpu: bool
    memory_bytes: int
    shared_bytes: int
    torch: str
    triton: str | None
    interpreted: bool
    dtypes: tuple[str, ...]
    note: str

    @property
    def arch(self) -> str | None:
        """ "sm_90" for an H100 or H200; None without a GPU."""
        return None if self.capability is None else f"sm_{self.capability[0]}{self.capability[1]}"

    @property
    def line(self) -> str:
        """The one line that every lesson's setup cell prints."""
        if not self.has_gpu:
            kernels = "kernels run in Triton's interpreter, float32 and float16"
            return f"no GPU: {kernels if self.triton else 'and no Triton, so kernel exercises cannot run here'}"
        short = {"float16": "fp16", "bfloat16": "bf16", "float8": "fp8"}
        have = ", ".join(short[d] for d in self.dtypes if d in short)
        dtypes = have if "bfloat16" in self.dtypes else f"{have}, no bf16"
        return " · ".join((self.name, self.arch or "", dtypes, self.note))

    def __str__(self) -> str:
        return self.line


def machine() -> Machine:
    """Describe this machine and its first GPU."""
    triton = triton_version()
    if not torch.cuda.is_available():
        return Machine(name="no GPU", capability=None, has_gpu=False, memory_bytes=0, shared_bytes=0,
                       torch=torch.__version__, triton=triton, interpreted=True, dtypes=("float32", "float16"),
                       note="kernels run in Triton's interpreter")
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    capability = (properties.major, properties.minor)
    interpreted = interpreting()
    return Machine(name=properties.name, capability=capability, has_gpu=True, memory_bytes=properties.total_memory,
                   shared_bytes=shared_limit(capability), torch=torch.__version__, triton=triton,
                   interpreted=interpreted, dtypes=_dtypes(capability, interpreted),
                   note=_note(triton, capability, interpreted))


def _dtypes(capability: tuple[int, int], interpreted: bool) -> tuple[str, ...]:
    found = ["float32", "float16"]
    if capability >= (8, 0) and not interpreted:     # below, bfloat16 is emulated; interpreted, it is wrong
        found.append("bfloat16")
    if capability >= (8, 9) and not interpreted:
        found.append("float8")
    return tuple(found)


def _note(triton: str | None, capability: tuple[int, int], interpreted: bool) -> str:
    if triton is None:
        return "no Triton, so kernel exercises cannot run here"
    version = ".".join(triton.split(".")[:2])
    if interpreted:
        return f"Triton {version} interpreted, because TRITON_INTERPRET=1 is set"
    return f"Triton {version} compiled" + (", dot runs without tensor cores" if capability < TENSOR_CORES_FROM else "")


def shared_limit(capability: tuple[int, int]) -> int:
    """Bytes of shared memory one program may use on this compute capability; the least known one's where unknown."""
    return SHARED_KIB.get(capability, min(SHARED_KIB.values())) * 1024


def triton_version() -> str | None:
    """The installed triton's version, without importing it; None where there is none."""
    if "triton" in sys.modules:
        return sys.modules["triton"].__version__
    for distribution in ("triton", "pytorch-triton", "triton-windows"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def interpreting() -> bool:
    """Whether kernels defined from now on are interpreted: what TRITON_INTERPRET says."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "y", "yes")


def ensure_interpreter() -> None:
    """Choose Triton's interpreter where there is no GPU. efflab calls this when it is imported."""
    if not interpreting() and not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"


def interpreter_problem() -> str | None:
    """Why kernels cannot be interpreted here, and what to do; None when they can, or need not be."""
    if not interpreting():
        return None
    if _imported_compiled():
        return ("Triton was imported before efflab, in compiled mode, and this machine has no GPU to compile for. "
                "Restart the kernel (Kernel > Restart) and import efflab before triton and before whatever imports it.")
    numpy = importlib.metadata.version("numpy")
    return next(iter(bad_pairs(torch=torch.__version__, triton=triton_version(), numpy=numpy, interpreted=True)), None)


def _imported_compiled() -> bool:
    triton = sys.modules.get("triton")
    language = getattr(triton, "language", None)
    return language is not None and isinstance(language.cdiv, triton.JITFunction)   # type: ignore[union-attr]
