"""The x-ray really compiles small kernels, for GPUs that are not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from efflab.checking.exercise import Exercise, Kernel, Output, XRay
from efflab.gpu import _compiled, _specs, _xray_jobs, _xray_run, targets, xray
from efflab.gpu.xray import KernelXRay, judge, judge_one, xray_launches

SAMPLES = Path(__file__).with_name("sample_kernels.py")

pytestmark = pytest.mark.skipif(xray.available() is not None, reason=str(xray.available()))


def half(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float16)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def compiled():
    """By arch: what the x-ray tells about sample_kernels.everything."""
    inputs = {"x": half(1024), "a": half(128, 512), "b": half(512, 128), "tile": half(128, 64)}
    told = xray_launches(SAMPLES, "everything", inputs, ("sm_80", "sm_90"))
    return {arch: [k for k in told if k.arch == arch] for arch in ("sm_80", "sm_90")}


def error(k: KernelXRay) -> str:
    assert k.error is not None
    return k.error


def named(kernels: list[KernelXRay], kernel: str) -> list[KernelXRay]:
    return [k for k in kernels if k.kernel == kernel]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_copy_needs_nothing_special(compiled, arch):
    k = named(compiled[arch], "copy_kernel")[0]
    assert (k.shared_bytes, k.spills, k.mma, k.wgmma, k.tma, k.fits) == (0, 0, False, False, False, True)
    assert 8 <= k.registers <= 64
    assert k.grid == (1,)       # a callable grid, with BLOCK from the launch


def test_a_product_uses_the_tensor_cores_of_each_generation(compiled):
    old, new = named(compiled["sm_80"], "product_kernel")[0], named(compiled["sm_90"], "product_kernel")[0]
    assert (old.mma, old.wgmma, new.mma, new.wgmma) == (True, False, True, True)
    assert old.spills == new.spills == 0
    assert 32 * 1024 <= old.shared_bytes <= old.shared_limit == 163 * 1024
    assert new.shared_limit == 227 * 1024


def test_few_registers_spill(compiled):
    k = named(compiled["sm_80"], "product_kernel")[1]
    assert k.registers <= 32
    assert k.spills > 100
    assert k.fits


def test_too_much_shared_memory_does_not_fit(compiled):
    k = named(compiled["sm_80"], "product_kernel")[2]
    assert k.shared_bytes > 163 * 1024
    assert not k.fits


def test_a_descriptor_is_tma_on_hopper_and_pointers_before(compiled):
    assert not named(compiled["sm_80"], "described_kernel")[0].tma
    assert named(compiled["sm_90"], "described_kernel")[0].tma


def test_each_configuration_of_an_autotuned_kernel(compiled):
    tuned = [k for k in compiled["sm_80"] if k.config]
    assert ["BLOCK_K: 32" in tuned[0].config, "BLOCK_K: 256" in tuned[1].config] == [True, True]
    assert [k.fits for k in tuned] == [True, False]


def test_heuristics_choose(compiled):
    assert len(named(compiled["sm_80"], "copy_kernel")) == 2, "BLOCK 1024 by launch and by heuristic are one kernel"
    assert any(k.grid == (1, 70000) and not k.fits for k in named(compiled["sm_80"], "copy_kernel"))


def test_a_compile_error_names_the_line_and_the_cause(compiled):
    k = named(compiled["sm_90"], "broken_kernel")[0]
    assert "undefined_name is not defined" in error(k)
    assert "tl.store(x_ptr" in error(k)
    assert len(error(k)) < 600
    assert not k.fits


def test_the_target_plays_its_part_in_the_wrapper_too():
    told = xray_launches(SAMPLES, "asks_the_gpu", {"x": half(1024)}, ("sm_75", "sm_90"))
    assert [(k.grid, k.error) for k in told] == [((40,), None), ((132,), None)]


def test_what_a_function_does_wrong_is_told():
    text = SAMPLES.read_text(encoding="utf-8")
    raised = xray_launches(text, "raises", {"x": half(64)}, "sm_80")
    assert [k.kernel for k in raised] == ["copy_kernel", "raises"]
    assert error(raised[1]).startswith('ValueError: the wrapper gave up')
    nothing = xray._entries("no_launch", "sm_80", {"kernels": [], "error": None}, "")
    assert nothing[0].error == "the function launched no Triton kernel"
    missing = xray_launches(text, "no_such_function", {"x": half(64)}, "sm_80")
    assert "defines no 'no_such_function'" in error(missing[0])


def test_a_crash_and_a_forced_exit_lose_their_own_job_alone(monkeypatch):
    """On one target each; three targets and one process."""
    started = []
    hire = _xray_run.Crew.hire

    def counted(crew, command, environment):
        started.append(command)
        return hire(crew, command, environment)
    monkeypatch.setattr(_xray_run.Crew, "hire", counted)
    told = xray_launches(SAMPLES, "crashes_on_some", {"x": half(64)}, ("sm_75", "sm_80", "sm_90"))
    assert [k.arch for k in told] == ["sm_75", "sm_80", "sm_90"]
    assert error(told[0]).startswith("the compiler crashed (SIGSEGV): last words")
    assert error(told[1]).startswith("the compiling process ended early (exit status 7)")
    assert told[2].error is None
    assert len(started) == 1


def test_a_worker_that_is_killed_is_followed_by_another():
    """The function kills its parent, on one target only; what was answered before stays."""
    told = xray_launches(SAMPLES, "kills_the_worker", {"x": half(64)}, ("sm_75", "sm_90"))
    assert told[1].error is None
    assert error(told[0]) == "the compiling process ended early (SIGKILL)"


def test_an_endless_function_is_stopped(monkeypatch):
    monkeypatch.setattr(_xray_run, "SECONDS_PER_JOB", 4)
    told = xray_launches(SAMPLES, "endless", {"x": half(64)}, "sm_80")
    assert "took longer than 4 s and was stopped" in error(told[0])


def wait_for(marker: Path) -> int:
    """The process that `endless` runs in."""
    for _ in range(600):
        if marker.exists() and marker.read_text():
            return int(marker.read_text())
        time.sleep(0.1)
    raise AssertionError("the function was not called")


def gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"      # nobody adopts it here


def test_a_pending_xray_is_cancelled_at_once(tmp_path):
    marker = tmp_path / "marker"
    asked = XRay(arch="sm_80", name="", inputs=lambda: {"x": half(64), "marker": str(marker)})
    looking = xray.start(exercise("endless", asked), SAMPLES)
    process = wait_for(marker)
    start = time.monotonic()
    looking.cancel()
    assert time.monotonic() - start < 5
    for _ in range(50):
        if gone(process):
            break
        time.sleep(0.1)
    assert gone(process)
    with pytest.raises(InterruptedError):
        looking.problems()


def test_a_pending_xray_finds_what_judge_finds():
    one = XRay(arch="sm_80", name="N = 64", inputs=lambda: {"x": half(64)}, needs=("mma",))
    looking = xray.start(exercise("copy", one), SAMPLES)
    assert looking.not_run is None
    assert looking.problems() == looking.problems() == judge(exercise("copy", one), SAMPLES) != []
    looking.cancel()
    assert xray.start(exercise("copy"), SAMPLES).problems() == []


def test_a_pending_xray_says_why_it_is_not_run(monkeypatch):
    def missing():
        raise xray.XRayUnavailable("the x-ray needs Triton")
    asked = XRay(arch="sm_80", name="", inputs=dict)
    built = eval("lambda: None")            # its source is nowhere
    looking = xray.start(exercise("built", asked), built)
    assert "cannot be read" in str(looking.not_run)
    monkeypatch.setattr(_xray_run, "tools", missing)
    looking = xray.start(exercise("copy", asked), SAMPLES)
    assert (looking.not_run, looking.problems()) == ("the x-ray needs Triton", [])


def test_an_interrupt_ends_the_worker_at_once(tmp_path):
    marker = tmp_path / "marker"
    code = ("import torch\nfrom pathlib import Path\nfrom efflab.gpu.xray import xray_launches\n"
            f"inputs = {{'x': torch.empty(2), 'marker': {str(marker)!r}}}\n"
            f"xray_launches(Path({str(SAMPLES)!r}), 'endless', inputs, 'sm_80')")
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    worker = wait_for(marker)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=20)[1]
    assert "KeyboardInterrupt" in errors
    assert gone(worker)


def test_a_second_look_starts_no_process(monkeypatch):
    inputs = {"x": half(256)}
    first = xray_launches(SAMPLES, "copy", inputs, "sm_80")

    def no_process(*args):
        raise AssertionError("a process was started")
    monkeypatch.setattr(_xray_run, "_one_process", no_process)
    again = xray_launches(SAMPLES, "copy", inputs, "sm_80")
    assert [k.as_dict() for k in again] == [k.as_dict() for k in first]
    assert first[0].error is None
    with pytest.raises(AssertionError, match="a process was started"):
        xray_launches(SAMPLES, "copy", {"x": half(257)}, "sm_80")


def test_the_key_follows_what_decides_the_answer():
    def key(source="s", function="f", arch="sm_80", **inputs):
        return _xray_jobs.jobs_for(source, function, [(arch, inputs or {"x": half(4, 4)})])[0]["key"]
    assert key() == key(x=half(4, 4))
    others = [key(source="t"), key(function="g"), key(arch="sm_90"), key(x=half(4, 5)), key(x=half(4, 4).T),
              key(x=torch.empty(4, 4)), key(x=half(5, 4)[1:]), key(x=half(4, 4), n=1)]
    assert len({key(), *others}) == len(others) + 1


def test_inputs_cross_as_plain_data():
    flat = torch.arange(30, dtype=torch.int32)
    values: dict[str, Any] = {
        "sliced": half(6, 8)[1:, 2:5], "expanded": half(1, 4).expand(3, 4), "counts": flat[3:9].view(2, 3),
        "empty": half(0, 4), "dtype": torch.bfloat16, "pair": (1, None, [True, 2.5]), "none": None, "text": "a"}
    back = _specs.build(json.loads(json.dumps(_specs.describe(values))))
    for name in ("sliced", "expanded", "counts", "empty"):
        x, y = values[name], back[name]
        assert (x.shape, x.stride(), x.storage_offset(), x.dtype) == (y.shape, y.stride(), y.storage_offset(), y.dtype)
    assert torch.equal(back["counts"], values["counts"])
    assert {k: back[k] for k in ("dtype", "pair", "none", "text")} == {
        k: values[k] for k in ("dtype", "pair", "none", "text")}
    with pytest.raises(TypeError, match="got function"):
        _specs.describe(lambda: None)


# --- Judging ----------------------------------------------------------------------------------------------------------

def seen(**facts) -> KernelXRay:
    usual: dict[str, Any] = {"kernel": "k", "arch": "sm_75", "shared_limit": 65536, "shared_bytes": 1024}
    return KernelXRay(**(usual | facts))


def wanted(arch="sm_75", **facts) -> XRay:
    return XRay(**{"arch": arch, "name": "", "inputs": dict} | facts)


def test_judge_says_what_to_do():
    assert judge_one(wanted(), [seen(mma=True)]) == []
    assert judge_one(wanted(), [seen(shared_bytes=98304)]) == [
        "sm_75: k needs 96 KiB of shared memory, a Tesla T4 has 64 KiB for one program: smaller tiles or fewer stages"]
    assert "spills 12 registers a thread to memory (0 allowed)" in judge_one(wanted(), [seen(spills=12)])[0]
    assert judge_one(wanted(spills=12), [seen(spills=12)]) == []
    assert "does not use the tensor cores" in judge_one(wanted(needs=("mma",)), [seen()])[0]
    assert "at least 64 rows" in judge_one(wanted(needs=("mma", "wgmma")), [seen(mma=True)])[0]
    assert judge_one(wanted(needs=("mma",)), [seen(), seen(kernel="other", mma=True)]) == []
    assert judge_one(wanted(needs=("mma",)), [seen(error="at `x`: wrong")]) == ["sm_75: k: at `x`: wrong"]
    assert "put the large axis first" in judge_one(wanted(), [seen(grid=(1, 70000))])[0]


def test_one_good_configuration_is_enough():
    bad, good = seen(config="a", shared_bytes=98304, spills=3), seen(config="b")
    assert judge_one(wanted(), [bad, good]) == []
    assert len(judge_one(wanted(), [bad, seen(config="b", spills=1)])) == 1


def exercise(name: str, *xrays: XRay) -> Exercise:
    return Exercise(chapter="samples", name=name, summary="", reference=lambda x: x, cases=lambda draw: (),
                    outputs=(Output(name="y"),), mistakes=(), hints=(), points=1, minutes=1, difficulty="easy",
                    kernel=Kernel(xrays=xrays))


def test_judge_an_exercise():
    one = XRay(arch="sm_80", name="N = 64", inputs=lambda: {"x": half(64)}, needs=("mma",))
    problems = judge(exercise("copy", one, one), SAMPLES)
    assert len(problems) == 1
    assert problems[0].startswith("sm_80, N = 64: copy_kernel does not use the tensor cores")
    assert judge(exercise("copy"), SAMPLES) == []
    assert [(x.arch, x.needs) for x in xray._for_arch((one,), "sm_80")] == [("sm_80", ("mma",))]
    assert [(x.arch, x.needs) for x in xray._for_arch((one,), "sm_75")] == [("sm_75", ())]


def test_a_wrapped_worker_and_its_answers_are_distrusted(tmp_path):
    """A sandbox may wrap the command; whatever the process writes, only well-formed answers to the jobs count."""
    forged = tmp_path / "forge.py"
    forged.write_text(
        "import json, sys\nrequest = json.load(sys.stdin)\nkey = request['jobs'][0]['key']\n"
        "lines = ['no json', json.dumps({'key': 'other', 'kernels': [], 'error': None}), json.dumps([1]),"
        " json.dumps({'key': key, 'kernels': [{'kernel': 'k', 'surprise': 1, 'registers': '7', 'mma': 1}],"
        " 'error': None})]\nopen(request['out'], 'w').write('\\n'.join(lines))\n", encoding="utf-8")
    told = xray_launches("source of a forger", "f", {}, "sm_80", wrap=lambda command, folder: [command[0], str(forged)])
    assert [(k.kernel, k.registers, k.mma) for k in told] == [("k", 7, False)]


def test_views():
    shown = xray.XRays([seen(), seen(kernel="<script>", error="no & never")])
    assert "1.0 of 64" in str(shown)
    assert "no: no & never" in str(shown)
    page = shown._repr_html_()
    assert "<script>" not in page
    assert "no &amp; never" in page


# --- Targets and compiled kernels --------------------------------------------------------------------------------

def test_targets():
    assert targets.target("90") is targets.target("sm90") is targets.target("SM_90") is targets.TARGETS["sm_90"]
    assert targets.target("8.9").capability == (8, 9)
    with pytest.raises(targets.UnknownArch, match=r"Did you mean sm_90"):
        targets.target("sm_91")


def test_what_a_compiled_kernel_uses_is_read():
    assert _compiled.parse_ptx("mma.sync.aligned.m16n8k16.row.col.f32") == {"mma": True, "wgmma": False, "tma": False}
    hopper = "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16; cp.async.bulk.tensor.4d.shared::cta.global"
    assert _compiled.parse_ptx(hopper) == {"mma": True, "wgmma": True, "tma": True}
    plain = "fma.rn.f32 %f1; cp.async.bulk.commit_group; // comma.sync"
    assert _compiled.parse_ptx(plain) == {"mma": False, "wgmma": False, "tma": False}
    assert _compiled.parse_usage("Function k:\n  REG:64 STACK:400 SHARED:0 LOCAL:0 CONSTANT[0]:400") == (64, 400)
    with pytest.raises(RuntimeError, match="no register count"):
        _compiled.parse_usage("nothing")
