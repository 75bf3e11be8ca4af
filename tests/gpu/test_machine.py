"""The one line, the choice of the interpreter, and the messages when it comes too late."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from efflab.gpu.machine import Machine, machine, shared_limit
from efflab.gpu.versions import bad_pairs, parse

machine_module = importlib.import_module("efflab.gpu.machine")       # efflab.gpu.machine is also a function
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")


@pytest.fixture
def gpu(monkeypatch):
    """Play a GPU: gpu("Tesla T4", 7, 5)."""
    def play(name: str, major: int, minor: int, triton: str = "3.6.0", interpret: str = "") -> Machine:
        card = SimpleNamespace(name=name, major=major, minor=minor, total_memory=16 << 30)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: card)
        monkeypatch.setattr(machine_module, "triton_version", lambda: triton)
        monkeypatch.setenv("TRITON_INTERPRET", interpret)
        return machine()
    return play


def test_t4_line(gpu):
    assert gpu("NVIDIA T4", 7, 5).line == (
        "NVIDIA T4 · sm_75 · fp16, no bf16 · Triton 3.6 compiled, dot runs without tensor cores")
    assert gpu("NVIDIA T4", 7, 5).shared_bytes == 64 * 1024


def test_h200_line(gpu):
    h200 = gpu("NVIDIA H200", 9, 0)
    assert h200.line == "NVIDIA H200 · sm_90 · fp16, bf16, fp8 · Triton 3.6 compiled"
    assert (h200.arch, h200.shared_bytes, h200.interpreted) == ("sm_90", 227 * 1024, False)


def test_gpu_with_interpreter_on_request(gpu):
    assert gpu("NVIDIA H200", 9, 0, interpret="1").line.endswith("interpreted, because TRITON_INTERPRET=1 is set")
    assert "bfloat16" not in gpu("NVIDIA H200", 9, 0, interpret="1").dtypes


@needs_no_gpu
def test_line_without_gpu():
    assert machine().line == "no GPU: kernels run in Triton's interpreter, float32 and float16"


@needs_no_gpu
def test_line_without_triton(monkeypatch):
    monkeypatch.setattr(machine_module, "triton_version", lambda: None)
    assert machine().line == "no GPU: and no Triton, so kernel exercises cannot run here"


def test_unknown_capability_gets_the_smallest_limit():
    assert shared_limit((99, 0)) == 64 * 1024


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**clean, **environment})


@needs_no_gpu
def test_importing_efflab_chooses_the_interpreter_and_imports_no_triton():
    done = run_python("import efflab, os, sys; print(os.environ['TRITON_INTERPRET'], 'triton' in sys.modules);"
                      "from efflab.gpu import interpreter_problem; import triton; print(interpreter_problem())")
    assert done.stdout.split() == ["1", "False", "None"], done.stderr


@needs_no_gpu
def test_triton_imported_too_early_is_told():
    done = run_python("import triton, efflab; from efflab.gpu import interpreter_problem; print(interpreter_problem())")
    assert "Triton was imported before efflab" in done.stdout
    assert "Restart the kernel" in done.stdout


def test_bad_pair_of_triton_and_numpy():
    told = bad_pairs(torch="2.11.0", triton="3.6.0", numpy="2.5.0", interpreted=True)
    assert len(told) == 1
    assert "numpy<2.4" in told[0]
    assert bad_pairs(torch="2.11.0", triton="3.6.0", numpy="2.5.0", interpreted=False) == []
    assert bad_pairs(torch="2.11.0", triton="3.6.0", numpy="2.3.5", interpreted=True) == []
    assert bad_pairs(torch="2.13.0+cpu", triton="3.7.1", numpy="2.4.6", interpreted=True) == []


def test_other_bad_versions():
    assert "./run setup" in bad_pairs(torch="2.6.0", triton=None, numpy="2.0.0", interpreted=True)[0]
    assert "pip check" in bad_pairs(torch="2.13.0+cu130", triton="3.6.0", numpy="2.0.0", interpreted=False)[0]


def test_versions_are_read():
    assert parse("2.11.0a0+git1") == (2, 11)
    with pytest.raises(ValueError, match="cannot read"):
        parse("unknown")
