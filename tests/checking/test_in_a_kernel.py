"""In a real Jupyter kernel: the interrupt button, and triton imported before efflab."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

jupyter_client = pytest.importorskip("jupyter_client")

ENDLESS = """
def rms(x):
    while True:
        pass
rms = check(rms)
"""
RIGHT = """
def rms(x):
    return x.float().square().mean(-1).sqrt().to(x.dtype)
rms = check(rms)
"""


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, object]]:
    from jupyter_client.manager import KernelManager

    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path))
    manager = KernelManager()
    manager.kernel_spec_manager.ensure_native_kernel = True
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def _run(client: object, code: str) -> str:
    """Run a cell; return what it showed."""
    shown: list[str] = []

    def collect(message: dict) -> None:      # type: ignore[type-arg]
        content = message["content"]
        plain = content.get("data", {}).get("text/plain", "")
        shown.append(content.get("text", "") or plain or content.get("ename", ""))

    client.execute_interactive(code, timeout=120, output_hook=collect)      # type: ignore[attr-defined]
    return "\n".join(shown)


def test_the_interrupt_button_leaves_everything_usable(kernel: tuple[object, object]) -> None:
    manager, client = kernel
    _run(client, "from efflab import check")
    client.execute(ENDLESS)                                  # type: ignore[attr-defined]
    time.sleep(2)
    manager.interrupt_kernel()                               # type: ignore[attr-defined]
    reply = client.get_shell_msg(timeout=30)                 # type: ignore[attr-defined]
    while reply["content"].get("status") != "error":
        reply = client.get_shell_msg(timeout=30)             # type: ignore[attr-defined]
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert "start_here.rms: passed" in _run(client, RIGHT)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU nothing comes too late")
def test_triton_imported_too_early_is_explained() -> None:
    program = """
import os; os.environ.pop("TRITON_INTERPRET", None)
import triton, triton.language as tl
import efflab
efflab.begin("start_here")
from efflab.checking import Exercise, Kernel, Output, check_function
exercise = Exercise(chapter="t", name="f", summary="S.", reference=lambda x: x, cases=lambda d: (),
                    outputs=(Output("y"),), hints=(), points=1, minutes=1, difficulty="easy", mistakes=(),
                    kernel=Kernel())
print(check_function(exercise, lambda x: x))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "t.f: skipped" in done.stdout
    assert "estart" in done.stdout, "it says to restart the kernel"
    assert done.stdout.count("0 of 1 points") == 1, "skipped is never counted as passed"
