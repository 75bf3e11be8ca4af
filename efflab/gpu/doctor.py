"""Everything that has to be right on this machine, looked at and tried, with what to do where it is not."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from efflab.gpu import xray
from efflab.gpu.machine import Machine, machine
from efflab.gpu.versions import bad_pairs

CANARY_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the doctor's report. good: False is a problem; advice: what to do about it."""

    what: str
    value: str
    good: bool = True
    advice: str = ""


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The one line, the machine, and all findings."""

    machine: Machine
    findings: tuple[Finding, ...]

    @property
    def good(self) -> bool:
        return all(f.good for f in self.findings)

    def as_dict(self) -> dict[str, Any]:
        return {"line": self.machine.line, "good": self.good, "machine": asdict(self.machine),
                "findings": [asdict(f) for f in self.findings]}


def examine() -> Diagnosis:
    """Look at versions and the GPU, run the canary kernel, measure the GPU's copy bandwidth."""
    m = machine()
    numpy = importlib.metadata.version("numpy")
    findings = [
        Finding(what="Python", value=platform.python_version(), good=sys.version_info >= (3, 10),
                advice="The course needs Python 3.10 or newer: ./run setup with a newer python3 first on PATH."),
        Finding(what="torch", value=m.torch),
        Finding(what="triton", value=m.triton or "missing", good=m.triton is not None,
                advice="Kernel exercises need Triton (Linux): pip install triton, in the version your torch asks for."),
        Finding(what="numpy", value=numpy),
        *_gpu_findings(m),
        Finding(what="float types in kernels", value=", ".join(m.dtypes)),
        *(Finding(what="versions", value=problem.split(". ")[0], good=False, advice=problem.split(". ", 1)[1])
          for problem in bad_pairs(torch=m.torch, triton=m.triton, numpy=numpy, interpreted=m.interpreted)),
    ]
    if m.triton is not None:
        findings += [canary(), _xray_finding()]
    return Diagnosis(machine=m, findings=tuple(findings))


def _gpu_findings(m: Machine) -> list[Finding]:
    if not m.has_gpu:
        driver = driver_version()
        if driver is None:
            return [Finding(what="GPU", value="none")]
        return [Finding(what="GPU", value=f"driver {driver} is there, torch {m.torch} sees no GPU", good=False,
                        advice="Is this a CPU build of torch, or is the driver older than its CUDA version? "
                               "Set up with a Python whose torch sees the GPU, and run ./run setup again.")]
    from efflab.gpu.timing import copy_bandwidth

    free, total = torch.cuda.mem_get_info()
    size = min(1 << 30, free // 8)
    return [
        Finding(what="GPUs", value=", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))),
        Finding(what="driver", value=f"{driver_version() or 'unknown'}, CUDA {torch.version.cuda}"),
        Finding(what="memory", value=f"{total / 2**30:.1f} GiB, {free / 2**30:.1f} GiB free"),
        Finding(what="shared memory", value=f"{m.shared_bytes // 1024} KiB for one program"),
        Finding(what="copy bandwidth", value=f"{copy_bandwidth(size=size) / 1e12:.2f} TB/s, measured now"),
    ]


def driver_version() -> str | None:
    """The NVIDIA driver's version; None where nvidia-smi is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        done = subprocess.run([tool, "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                              text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else None


def canary(command: tuple[str, ...] = (sys.executable, "-m", "efflab.gpu._canary")) -> Finding:
    """Run a small kernel in a fresh process and tell how that went."""
    import efflab

    paths = os.pathsep.join(filter(None, [str(Path(efflab.__file__).resolve().parents[1]),
                                          os.environ.get("PYTHONPATH", "")]))
    advice = ("Kernels do not run here. Check the versions above; ./run setup makes an environment in which they are "
              "tested together.")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CANARY_SECONDS,
                              env={**os.environ, "PYTHONPATH": paths})
    except subprocess.TimeoutExpired:
        return Finding(what="canary kernel", value=f"did not end within {CANARY_SECONDS} s", good=False, advice=advice)
    if done.returncode == 0:
        return Finding(what="canary kernel", value=f"runs, {done.stdout.strip()}")
    said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
    how = f"killed by signal {-done.returncode}" if done.returncode < 0 else "failed"
    return Finding(what="canary kernel", value=f"{how}: {said[:300]}", good=False, advice=advice)


def _xray_finding() -> Finding:
    reason = xray.available()
    return Finding(what="x-ray", value="available" if reason is None else reason, good=reason is None,
                   advice="Checks of kernels skip the compiler's part without it: reinstall Triton from its wheel.")
