"""What only a GPU can show. Under pytest these tests are skipped without one; `python tests/gpu/test_on_device.py`
runs them without pytest, on a GPU machine that has little else than torch and triton."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

import efflab  # noqa: F401  before triton

try:
    import pytest
except ModuleNotFoundError:         # run as a script
    pass
else:
    pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

sys.path.insert(0, str(Path(__file__).parent))
SAMPLES = Path(__file__).with_name("sample_kernels.py")


def normal(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


def near(x: torch.Tensor, y: torch.Tensor, tolerance: float) -> None:
    error = (x.double() - y.double()).abs().max().item()
    assert error <= tolerance, f"largest error {error:.2e}, allowed {tolerance:.0e}"


def test_machine_line():
    from efflab.gpu import interpreter_problem, machine

    m = machine()
    print(m.line)
    assert m.has_gpu
    assert m.name in m.line
    assert m.capability == torch.cuda.get_device_capability()
    assert (m.arch or "no arch") in m.line
    assert "compiled" in m.line
    assert interpreter_problem() is None
    most = getattr(torch.cuda.get_device_properties(0), "shared_memory_per_block_optin", None)
    print(f"  {m.shared_bytes} bytes of shared memory; CUDA says {most}")
    assert most is None or m.shared_bytes == most


def test_doctor_is_content():
    from efflab.gpu.doctor import examine

    diagnosis = examine()
    for f in diagnosis.findings:
        print(f"  {'ok' if f.good else 'PROBLEM'}  {f.what}: {f.value} {'' if f.good else f.advice}")
    assert diagnosis.good
    assert {"copy bandwidth", "driver", "canary kernel"} <= {f.what for f in diagnosis.findings}


def test_copy_bandwidth_is_what_the_data_sheet_allows():
    from efflab.gpu import limits, timing

    measured, sheet = timing.copy_bandwidth(), limits.peak(torch.cuda.get_device_name())
    print(f"  copy {measured / 1e12:.2f} TB/s, data sheet {sheet}")
    assert measured > 50e9
    if sheet is not None:
        assert 0.6 * sheet.bandwidth < measured < sheet.bandwidth


def test_measured_limits_are_above_what_is_measured():
    from efflab.gpu import limits

    measured, sheet = limits.measured_peak(), limits.peak(torch.cuda.get_device_name())
    print(f"  {measured}")
    if sheet is not None:
        assert 0.7 * sheet.bandwidth < measured.bandwidth < 1.5 * sheet.bandwidth
        assert 0.6 * sheet.flops < measured.flops < 2 * sheet.flops


def test_a_flushed_cache_is_slower():
    from efflab.gpu.timing import median_ms

    size = (8 << 20) // 4           # 8 MiB read and 8 MiB written: in L2 on anything newer than a T4
    out = torch.empty(size, device="cuda")
    warm, cold = (median_ms(out.copy_, lambda: [torch.randn(size, device="cuda")], sets=1, flush=flush)
                  for flush in (False, True))
    print(f"  8 MiB copied: warm {warm}, cold {cold}")
    if torch.cuda.get_device_capability() >= (8, 0):
        assert cold.ms > warm.ms


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """In float64, causal aligned at the bottom right."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        i, j = torch.arange(s.shape[-2], device="cuda")[:, None], torch.arange(s.shape[-1], device="cuda")[None]
        s = s.masked_fill(j > i + s.shape[-1] - s.shape[-2], float("-inf"))
    return torch.softmax(s, -1) @ v


def test_attention_peers_compute_attention():
    from efflab.gpu.peers import PEERS

    for name in ("sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "flex_attention", "naive_attention"):
        reason = PEERS[name].available()
        if reason is not None:
            print(f"  {name}: {reason}")
            continue
        for causal in (False, True):
            q, k, v = (normal(2, 4, 256, 64) for _ in range(3))
            near(PEERS[name].function(q, k, v, causal), attention(q, k, v, causal), 5e-3)
            print(f"  {name} causal={causal}: agrees")


def test_grouped_heads():
    from efflab.gpu.peers import PEERS

    q, k, v = normal(2, 8, 256, 64), normal(2, 2, 256, 64), normal(2, 2, 256, 64)
    for name in ("sdpa_flash", "sdpa_cudnn", "flex_attention", "naive_attention"):
        if PEERS[name].available() is None:
            near(PEERS[name].function(q, k, v, True), attention(q, k, v, True), 5e-3)
            print(f"  {name}: agrees")


def test_flex_attention_masks_at_the_bottom_right_and_survives_many_shapes():
    from efflab.gpu.peers import PEERS

    if PEERS["flex_attention"].available() is not None:
        return
    for Nq, Nk in ((128, 256), (128, 128)):
        q, k, v = normal(1, 2, Nq, 64), normal(1, 2, Nk, 64), normal(1, 2, Nk, 64)
        near(PEERS["flex_attention"].function(q, k, v, True), attention(q, k, v, True), 5e-3)
    import torch._dynamo
    assert torch._dynamo.config.recompile_limit >= 256


def test_softmax_peers():
    from efflab.gpu.peers import PEERS

    x = normal(64, 1000, dtype=torch.float32)
    for name in ("torch_softmax", "compiled_softmax"):
        if PEERS[name].available() is None:
            near(PEERS[name].function(x), torch.softmax(x.double(), -1), 1e-5)


def bar(**changed: Any) -> Any:
    from efflab.checking.exercise import Bar

    size = 1 << 26
    facts: dict[str, Any] = {"name": "copy", "peer": "clone", "at_least": 0.8, "bytes": 4.0 * size,
                             "inputs": lambda draw: {"x": draw.normal(size, dtype=torch.float16)}}
    return Bar(**(facts | changed))


def test_a_copy_measured_against_itself():
    from efflab.gpu.bars import measure

    result = measure(bar(), lambda x: x.clone())
    print(f"  {result.sentence}")
    assert 0.9 < (result.ratio or 0) < 1.1
    assert result.judged
    assert result.passed
    assert not measure(bar(gpu="no such card"), lambda x: x.clone()).judged


def test_a_function_that_does_nothing_is_refused():
    from efflab.gpu.bars import measure

    result = measure(bar(), lambda x: x)
    print(f"  {result.sentence}")
    assert result.below_physical_limit
    assert not result.passed


def test_out_of_memory_is_told_and_freed():
    from efflab.gpu.bars import measure

    before = torch.cuda.memory_allocated()
    greedy = measure(bar(), lambda x: torch.empty(1 << 44, device="cuda"))
    print(f"  {greedy.sentence}")
    assert greedy.judged
    assert not greedy.passed
    assert "OutOfMemoryError" in (greedy.error or "")
    too_large = measure(bar(inputs=lambda draw: {"x": torch.empty(1 << 44, device="cuda")}), lambda x: x)
    assert "memory" in (too_large.skipped_reason or "")
    assert torch.cuda.memory_allocated() == before


def test_the_xray_says_what_the_gpu_says():
    """Registers, spills and shared memory as Triton's own launch reports them, and the GPU is not touched."""
    import sample_kernels

    from efflab.gpu import machine, targets, xray

    arch = machine().arch
    if arch not in targets.TARGETS:
        print(f"  the x-ray has no target {arch}")
        return
    for size, options in ((128, {}), (64, {"warps": 1, "maxnreg": 128})):       # the second one spills
        a, b = normal(size, 512), normal(512, size)
        c, compiled = sample_kernels.product(a, b, **options)
        told = xray.xray_launches(SAMPLES, "product", {"a": a, "b": b, **options}, arch, cached=False)
        print(f"  {told}\n  Triton: {compiled.metadata.shared} bytes, {compiled.n_regs} registers, "
              f"{compiled.n_spills} spills")
        assert told[0].error is None
        assert told[0].shared_bytes == compiled.metadata.shared
        assert told[0].registers == compiled.n_regs
        assert (told[0].spills > 0) == (compiled.n_spills > 0)
        near(c, a.double() @ b.double(), 0.1)
    if torch.cuda.get_device_capability() >= (9, 0):
        x = normal(128, 64)
        y, _ = sample_kernels.described(x)
        near(y, x, 0)


def test_a_curve():
    from efflab.gpu import curves

    curve = curves.Curve(
        name="attention", axis="N", sizes=(256, 1024), functions=("mine",), peers=("sdpa_flash", "naive_attention"),
        inputs=lambda draw, n: {name: draw.normal(2, 8, n, 64, dtype=torch.float16) for name in "qkv"},
        work=lambda n: 4.0 * 2 * 8 * n * n * 64)
    told = curves.measure(curve, SimpleNamespace(mine=torch.nn.functional.scaled_dot_product_attention), repeats=5)
    print(f"  {told}")
    assert all(rate is None or rate > 0 for rates in told["series"].values() for rate in rates)
    assert len(told["series"]["mine"]) == 2


def test_facts_and_results():
    from efflab.gpu import bench, results

    facts = bench.facts("efflab bench")
    print(f"  {facts}")
    assert facts["driver"]
    assert facts["gpu"] == torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / results.file_name(facts["gpu"])
        results.save({**facts, "chapters": {}}, path)
        assert results.load(where=Path(folder)) == {**facts, "chapters": {}}


def main() -> int:
    """Run all tests of this file; exit status 1 when one fails, 2 without a GPU."""
    if not torch.cuda.is_available():
        print("there is no GPU here")
        return 2
    failed = []
    for name, test in [(n, f) for n, f in globals().items() if n.startswith("test_")]:
        print(name, flush=True)
        try:
            test()
        except Exception:
            traceback.print_exc()
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
