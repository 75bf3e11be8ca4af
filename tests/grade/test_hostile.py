"""One folder of submissions that misbehave, graded once with bubblewrap and once without: each mark is right."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from efflab.grade import client, isolate
from efflab.grade.grading import Result

WRONG = "    return torch.zeros_like(x)\n"
# name -> (body of double(x), outcome, part of its message). The other exercises of each submission are right.
ATTACKS: dict[str, tuple[str, str, str]] = {
    "right": ("    return x * 2\n", "passed", "All 2 cases pass"),
    "wrong": ("    return x * x\n", "failed", "x is squared (squared)"),
    "prints_a_forged_result": (
        "    print('{\"submission\": \"x\", \"score\": 99, \"outcome\": \"passed\"}')\n" + WRONG, "failed", ""),
    "exits_at_once": ("    import os\n    os._exit(0)\n", "error", "exit status 0 before it returned"),
    "sys_exit": ("    import sys\n    sys.exit(0)\n", "error", "SystemExit"),
    "kills_itself": ("    import os\n    os.kill(os.getpid(), 9)\n", "error", "SIGKILL"),
    "segfault": ("    import ctypes\n    ctypes.string_at(0)\n", "error", "SIGSEGV"),
    "recursion": ("    return double(x)\n", "error", "RecursionError"),
    "never_ends": ("    while True:\n        pass\n", "error", "stopped after 8 s"),
    "asks_for_100_gb": ("    return torch.ones(25 * 10**9)\n", "error", "MemoryError"),
    "grows": ("    kept = []\n    while True:\n        kept.append(torch.ones(10**7))\n", "error", "held more than 2 GB"),
    "many_processes": (
        "    import os, time\n    for _ in range(100):\n        if os.fork() == 0:\n            time.sleep(60)\n"
        "            os._exit(0)\n    time.sleep(60)\n", "error", "processes"),
    "leaves_a_daemon": (
        "    import subprocess\n    subprocess.Popen(['sleep', '98765.25'], start_new_session=True)\n    return x * 2\n",
        "passed", ""),
    "prints_without_end": ("    for _ in range(300):\n        print('x' * 10**6)\n    return x * 2\n", "passed", ""),
    "closes_every_descriptor": ("    import os\n    os.closerange(0, 1000)\n    return x * 2\n", "error", ""),
    "writes_garbage_to_every_descriptor": (
        "    import os\n    for fd in range(3, 64):\n        try:\n            os.write(fd, b'\\xff' * 64)\n"
        "        except OSError:\n            pass\n    return x * 2\n", "error", "InvalidAnswer"),
    "patches_the_engine": (
        "    import efflab.checking.judge, efflab.checking.observe, efflab.grade.worker, efflab.grade.protocol\n"
        "    efflab.checking.judge.judge = lambda *a, **k: None\n    efflab.grade.protocol.observation = lambda r: None\n"
        + WRONG, "failed", ""),
    "patches_torch": ("    torch.equal = lambda *a: True\n    torch.Tensor.__eq__ = lambda a, b: True\n" + WRONG, "failed", ""),
    "object_with_a_hostile_repr": (
        "    class Value:\n        def __repr__(self):\n            raise SystemExit\n"
        "        __str__ = __array__ = __float__ = __repr__\n    return Value()\n", "failed", "y is Value"),
    "escapes_in_a_type_name": (
        "    return type('\\x1b[31m<script>', (), {})()\n", "failed", "<script>"),
    "escapes_in_a_message": ("    raise ValueError('\\x1b]0;title\\x07<b>')\n", "error", "ValueError"),
    "tensor_subclass": (
        "    class Sly(torch.Tensor):\n        @classmethod\n        def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "            return True\n    return torch.zeros_like(x).as_subclass(Sly)\n", "error", ""),
    "sparse": ("    return (x * 2).to_sparse()\n", "error", ""),
    "huge_return": ("    return torch.zeros(80 * 10**6)\n", "error", "at most"),
    "nested_without_end": ("    a = []\n    a.append(a)\n    return a\n", "error", ""),
    "imports_the_checks": (
        "    from efflab.chapters.roofline.checks import EXERCISES\n    return x * 2\n", "error", "is not there"),
    "imports_the_solution": ("    import solutions.toys\n    return x * 2\n", "error", "is not there"),
    "reads_the_environment": (
        "    import os\n    assert 'EFFLAB_TEST_SECRET' not in os.environ\n    return x * 2\n", "passed", ""),
    "raises_in_del": (
        "    class Late:\n        def __del__(self):\n            raise ValueError\n    Late()\n    return x * 2\n", "passed", ""),
    "exits_in_a_thread": (
        "    import threading, os, time\n    threading.Thread(target=lambda: (time.sleep(5), os._exit(0))).start()\n"
        "    return x * 2\n", "passed", ""),
}
# Only walls stop these. {sentinel}, {root}, {port} are filled in. Each returns the right answer when it was held.
WALLED: dict[str, str] = {
    "reads_the_checks_file":
        "    import glob\n    held = not [p for p in glob.glob('{root}/efflab/chapters/*/checks.py') if open(p).read()]\n",
    "reads_cached_bytecode": "    import glob\n    held = not glob.glob('{root}/efflab/chapters/*/__pycache__/*')\n",
    "reads_the_solution": "    import os\n    held = not os.path.exists('{root}/solutions/toys.py') and "
                          "not os.path.exists('{root}/tests') and not os.path.exists('{root}/.git')\n",
    "deletes_a_file": "    import os\n    held = not os.path.exists('{sentinel}')\n    held or os.unlink('{sentinel}')\n",
    "lists_the_home": "    import os\n    held = os.path.expanduser('~') == '/tmp' and not os.path.exists('/root/.bashrc') "
                      "and not os.path.exists('/home')\n",
    "writes_to_the_system": "    try:\n        open('/usr/efflab_was_here', 'w')\n        held = False\n"
                            "    except OSError:\n        held = True\n",
    "writes_to_efflab": "    try:\n        open('{root}/efflab/was_here', 'w')\n        held = False\n"
                        "    except OSError:\n        held = True\n",
    "opens_a_connection": "    import socket\n    try:\n        socket.create_connection(('127.0.0.1', {port}), 2)\n"
                          "        held = False\n    except OSError:\n        held = True\n",
    "looks_at_other_processes": "    import os\n    held = len([p for p in os.listdir('/proc') if p.isdigit()]) < 8\n",
    "looks_into_its_parent": "    import os\n    try:\n        open(f'/proc/{{os.getppid()}}/mem', 'rb')\n        held = False\n"
                             "    except OSError:\n        held = True\n",
    "finds_what_others_left": "    import os\n    held = os.listdir('/tmp') == [] and os.listdir('/dev/shm') == []\n"
                              "    open('/tmp/left', 'w'); open('/dev/shm/left', 'w')\n"
                              "    os.unlink('/tmp/left') if x.dim() == 1 else None\n"
                              "    os.unlink('/dev/shm/left') if x.dim() == 1 else None\n",
}


def source(body: str, right: str) -> str:
    return right.replace("    return x * 2\n", body)


@pytest.fixture(scope="module")
def listening() -> Iterator[int]:
    """A server on this machine that a submission must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept(), daemon=True).start()
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def graded(walls: isolate.Walls, right: str, grade, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("class") / "toys"
    for name, (body, _, _) in ATTACKS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "toys.py").write_text(source(body, right), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "PROCESSES", 30)
        patch.setenv("EFFLAB_TEST_SECRET", "42")
        return {r.submission: r for r in grade(walls, folder, jobs=2)}


@pytest.mark.parametrize("name", ATTACKS)
def test_each_ends_in_the_right_outcome_and_the_rest_goes_on(name: str, graded: dict[str, Result]) -> None:
    _, outcome, part = ATTACKS[name]
    double, *others = graded[name].reports
    assert (double.outcome, double.points) == (outcome, 3 if outcome == "passed" else 0), str(double)
    assert part in double.message
    assert "\x1b" not in double.message
    assert "\x07" not in double.message
    assert [r.outcome for r in others] == ["passed"] * 3, "\n".join(map(str, others))


def test_nothing_remains_running(graded: dict[str, Result]) -> None:
    assert graded["leaves_a_daemon"].reports
    commands = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            commands.append(Path("/proc", pid, "cmdline").read_bytes())
        except OSError:
            continue
    assert not any(b"98765.25" in c for c in commands)


def test_what_the_walls_hide(bwrap_walls: isolate.Walls, right: str, grade, tmp_path: Path, listening: int) -> None:
    sentinel = tmp_path / "sentinel"
    sentinel.write_text("still here")
    root = isolate.PACKAGE.parent
    for name, body in WALLED.items():
        filled = body.format(sentinel=sentinel, root=root, port=listening)
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "toys.py").write_text(
            source(filled + "    assert held\n    return x * 2\n", right), encoding="utf-8")
    results = grade(bwrap_walls, tmp_path / "class")
    assert {r.submission: r.reports[0].outcome for r in results} == dict.fromkeys(sorted(WALLED), "passed")
    assert sentinel.read_text() == "still here"
    assert not Path("/usr/efflab_was_here").exists()
    assert not (root / "efflab" / "was_here").exists()
