"""doctor, xray and bench as commands: output and exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner
from test_xray import exercise, wanted

from efflab import course
from efflab.checking.exercise import Bar, Kernel
from efflab.gpu import commands, doctor, xray
from efflab.gpu.doctor import Finding
from efflab.gpu.xray import KernelXRay

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="about machines without a GPU")


def run(command, *words: str):
    return CliRunner().invoke(command, words)


def test_the_canary_runs_in_a_process_of_its_own():
    found = doctor.canary()
    assert found.good, found.value
    assert "largest error" in found.value


@pytest.mark.parametrize(("code", "said"), [
    ("import os; os.abort()", "killed by signal 6"),
    ("raise RuntimeError('bad pair')", "failed: RuntimeError: bad pair"),
    ("import time; time.sleep(60)", "did not end within 1 s")])
def test_a_canary_that_does_not_come_back(monkeypatch, code, said):
    monkeypatch.setattr(doctor, "CANARY_SECONDS", 1 if "sleep" in code else 60)
    found = doctor.canary((sys.executable, "-c", code))
    assert not found.good
    assert said in found.value
    assert "./run setup" in found.advice


@pytest.fixture
def healthy(monkeypatch):
    monkeypatch.setattr(doctor, "canary", lambda: Finding(what="canary kernel", value="runs"))


@needs_no_gpu
def test_doctor(healthy):
    done = run(commands.doctor)
    assert done.exit_code == 0, done.output
    assert "no GPU: kernels run in Triton's interpreter" in done.output
    told = json.loads(run(commands.doctor, "--json").output)
    assert told["good"]
    looked_at = {f["what"] for f in told["findings"]}
    assert looked_at >= {"Python", "torch", "triton", "numpy", "GPU", "canary kernel", "x-ray"}


@needs_no_gpu
def test_doctor_finds_a_bad_pair(healthy, monkeypatch):
    versions = doctor.importlib.metadata.version
    monkeypatch.setattr(doctor.importlib.metadata, "version",
                        lambda name: {"triton": "3.6.0", "numpy": "2.5.0"}.get(name) or versions(name))
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    done = run(commands.doctor, "--json")
    assert done.exit_code == 1
    bad = [f for f in json.loads(done.output)["findings"] if not f["good"]]
    assert len(bad) == 1
    assert "triton 3.6.0 with numpy 2.5.0" in bad[0]["value"]
    assert "numpy<2.4" in bad[0]["advice"]


@needs_no_gpu
def test_doctor_sees_a_driver_that_torch_does_not(healthy, monkeypatch):
    monkeypatch.setattr(doctor, "driver_version", lambda: "535.1")
    done = run(commands.doctor)
    assert done.exit_code == 1
    assert "PROBLEM" in done.output


@needs_no_gpu
def test_bench_needs_a_gpu():
    done = run(commands.bench)
    assert done.exit_code == 2
    assert "There is no GPU here to measure" in done.output


@pytest.fixture
def played_bench(monkeypatch, tmp_path):
    """A GPU that is only played: bench(passed) measures one bar and returns (outcome of the command, saved file)."""
    from efflab.gpu import bars, bench

    made = exercise("copy")
    made = replace(made, kernel=replace(made.kernel or Kernel(), bars=(
        Bar(name="b", peer="clone", at_least=1.0, inputs=lambda draw: {}),)))

    def play(passed: bool, *words: str):
        result = bars.BarResult(name="b", peer="clone", at_least=1.0, gpu="NVIDIA H200", ms=1.0, peer_ms=2.0, ratio=2.0,
                                judged=True, passed=passed)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
        monkeypatch.setattr(bench, "facts", lambda command: {"gpu": "NVIDIA H200", "date": "2026-11-29", "torch": "2",
                                                             "triton": "3", "command": command})
        monkeypatch.setattr(bench, "_kernels", lambda slug: [made])
        monkeypatch.setattr(bench, "_curves", lambda slug: ())
        monkeypatch.setattr(bench, "solution_xrays", lambda e: [])
        monkeypatch.setattr(bars, "measure", lambda bar, function: result)
        monkeypatch.setattr(course, "solution_of", lambda e: None)
        out = tmp_path / "out.json"
        return run(commands.bench, "flash_attention", "--out", str(out), *words), out
    return play


def test_bench_saves_and_is_content(played_bench):
    done, out = played_bench(True)
    assert done.exit_code == 0, done.output
    saved = json.loads(out.read_text(encoding="utf-8"))
    assert saved["command"] == "efflab bench flash_attention"
    assert saved["chapters"]["flash_attention"]["bars"][0]["ratio"] == 2.0
    assert "2.00" in done.output


def test_bench_with_a_missed_bar(played_bench):
    done, out = played_bench(False, "--json")
    assert done.exit_code == 1
    assert "not reached" in json.loads(done.stdout)["chapters"]["flash_attention"]["problems"][0]
    assert out.exists()


def test_bench_does_not_overwrite_a_damaged_file(played_bench, tmp_path):
    (tmp_path / "out.json").write_text("{", encoding="utf-8")
    done, out = played_bench(True)
    assert done.exit_code == 2
    assert "is not JSON" in done.output
    assert out.read_text(encoding="utf-8") == "{"


def test_xray_of_a_chapter_that_is_not_there():
    done = run(commands.xray, "flash_atention")
    assert done.exit_code == 2
    assert "Did you mean" in done.output


@pytest.fixture
def one_kernel(monkeypatch):
    """A chapter with one kernel exercise; the compiler's answer is given."""
    xrays = (wanted("sm_80"), wanted("sm_90"))
    made = exercise("copy", *xrays)
    asked: list = []

    def answer(e, source, *, arch=None, wrap=None):
        asked.append((e.name, source, arch))
        return [(x, [KernelXRay(kernel="k", arch=x.arch, shared_limit=1024, shared_bytes=2048)])
                for x in xrays if arch is None or x.arch in arch]
    monkeypatch.setattr(course, "exercises", lambda slug: (made,))
    monkeypatch.setattr(xray, "available", lambda: None)
    monkeypatch.setattr(xray, "exercise_xrays", answer)
    return asked


def test_xray_of_ones_own_file(one_kernel, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1\n", encoding="utf-8")
    done = run(commands.xray, "flash_attention", "--path", str(mine), "--arch", "90", "--json")
    assert done.exit_code == 1, done.output
    assert one_kernel == [("copy", mine, ("sm_90",))]
    told = json.loads(done.output)
    assert [x["arch"] for x in told["xrays"]] == ["sm_90"]
    assert "needs 2 KiB of shared memory" in told["problems"][0]


def test_xray_as_a_table(one_kernel, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("x = 1\n", encoding="utf-8")
    done = run(commands.xray, "flash_attention", "--path", str(mine))
    assert "sm_80" in done.output
    assert "shared memory" in done.output


@pytest.mark.parametrize("words", [["flash_attention", "--path", "missing.py"], ["flash_attention", "--arch", "sm_91"]])
def test_xray_usage_errors(one_kernel, words):
    done = run(commands.xray, *words)
    assert done.exit_code == 2
    assert "Error:" in done.output


def test_commands_are_found_from_the_command_line():
    done = subprocess.run([sys.executable, "-m", "efflab.cli", "bench", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Exit status" in done.stdout
