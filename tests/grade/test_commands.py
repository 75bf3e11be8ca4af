"""efflab grade and efflab check as a person calls them: output, exit status, progress."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from efflab import course
from efflab.checking import progress
from efflab.grade import isolate, processes
from efflab.grade.commands import check, grade

ROOT = course.root() or Path()


def run(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_progress(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path_factory.mktemp("home")))


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_json_of_one_path_is_one_object_with_the_handbooks_keys(right: str, tmp_path: Path) -> None:
    done = run(grade, put(tmp_path / "toys.py", right), "--json", "--seed", 3)
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert list(told) == ["submission", "score", "max_score", "exercises"]
    assert (told["submission"], told["score"], told["max_score"]) == ("toys", 12, 12)
    assert list(told["exercises"][0]) == ["id", "outcome", "points", "max_points", "message", "mistake", "seconds"]
    assert "Isolation: " in done.stderr


def test_a_folder_gives_a_list_a_table_and_pages(right: str, tmp_path: Path) -> None:
    put(tmp_path / "class" / "alice" / "toys.py", right)
    put(tmp_path / "class" / "bob" / "toys.py", right.replace("x * 2", "x * x"))
    done = run(grade, tmp_path / "class", "--json", "--out", tmp_path / "out", "--jobs", 2)
    assert done.exit_code == 1
    told = json.loads(done.stdout)
    assert [(r["submission"], r["score"]) for r in told] == [("alice", 12), ("bob", 9)]
    assert told[1]["exercises"][0]["mistake"] == "squared"
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"alice.html", "bob.html", "grades.csv", "index.html"}
    table = run(grade, tmp_path / "class", "--seed", 4)
    assert table.exit_code == 1
    assert "alice" in table.stdout
    assert "seed 4" in table.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{tmp}/no_such.py"], "no file or folder"),
        (["{tmp}"], "holds no submissions"),
        (["{toys}", "--chapter", "toyz"], "Did you mean toys?"),
        (["{toys}", "--exercise", "dubble"], "Did you mean double?"),
        (["{toys}", "--chapter", "kv_cache"], "not written yet"),
        (["{toys}", "--seed", "x"], "--seed"),
        ([], "Missing argument"),
        (["{toys}", "--timeout", "0"], "--timeout"),
    ],
)
def test_what_cannot_run_ends_with_2_and_says_why(words: list[str], said: str, right: str, tmp_path: Path) -> None:
    toys = put(tmp_path / "mine" / "toys.py", right)
    (tmp_path / "empty").mkdir()
    for command in (grade, check):
        done = run(command, *[w.format(tmp=tmp_path / "empty", toys=toys) for w in words])
        assert done.exit_code == 2, done.output
        assert said in done.stderr
        assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("toys.ipynb", "{not json", "is not JSON"),
        ("toys.py", "", "is empty"),
        ("nothing.py", "x = 1", "answers no chapter"),
    ],
)
def test_one_file_that_cannot_be_read_ends_with_2(name: str, text: str, said: str, tmp_path: Path) -> None:
    for command in (grade, check):
        done = run(command, put(tmp_path / name, text))
        assert done.exit_code == 2
        assert said in done.stderr


def test_a_folder_with_one_that_cannot_be_read_ends_with_1(right: str, tmp_path: Path) -> None:
    put(tmp_path / "a" / "toys.ipynb", "{not json")
    put(tmp_path / "b" / "toys.py", right)
    done = run(grade, tmp_path, "--json")
    assert done.exit_code == 1
    bad, good = json.loads(done.stdout)
    assert (bad["score"], bad["max_score"], good["score"]) == (0, 12, 12)
    assert "is not JSON" in bad["problem"]


def test_pages_that_cannot_be_written_say_so(right: str, tmp_path: Path) -> None:
    blocked = put(tmp_path / "file", "")
    done = run(grade, put(tmp_path / "toys.py", right), "--out", blocked / "out")
    assert done.exit_code == 2
    assert "could not be written" in done.stderr


def test_check_shows_reports_and_keeps_progress(right: str, tmp_path: Path) -> None:
    mine = put(tmp_path / "toys.py", right.replace("    return x * 2", "    while True: pass"))
    done = run(check, mine, "--timeout", 3, "--seed", 9)
    assert done.exit_code == 1
    assert "stopped after 3 s" in done.stdout
    assert "Does a loop end?" in done.stdout
    assert "9 of 12 points · seed 9" in done.stdout
    kept = progress.load()
    assert {name: entry["outcome"] for name, entry in kept.items()} == {
        "toys.double": "error",
        "toys.sum_and_product": "passed",
        "toys.softmax_rows": "passed",
        "toys.successor": "passed",
    }
    assert run(check, put(tmp_path / "toys.py", right), "--exercise", "double").exit_code == 0
    assert progress.load()["toys.double"]["outcome"] == "passed"


def test_a_full_disk_costs_progress_and_nothing_else(
    right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EFFLAB_HOME", "/dev/full/efflab")
    done = run(check, put(tmp_path / "toys.py", right))
    assert done.exit_code == 0
    assert done.stderr.count("progress could not be written") == 1


def test_without_bubblewrap_the_output_says_what_is_not_enforced(
    right: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toys = put(tmp_path / "toys.py", right)
    done = run(grade, toys, "--no-bwrap", "--json")
    assert done.exit_code == 0
    assert "Not enforced" in done.stderr
    fake = tmp_path / "bin" / "bwrap"
    put(fake, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n").chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    refused = isolate.walls()
    assert refused.bwrap is None
    assert "No permissions to create new namespace" in refused.sentence
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "is not installed" in isolate.walls().sentence


def in_a_shell(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "efflab.cli", *words], cwd=ROOT, capture_output=True, text=True, timeout=500
    )


def test_solutions_get_full_marks_and_stubs_none() -> None:
    """Every chapter that is written, in one run."""
    slugs = [c.slug for c in course.ready_chapters() if c.part != "Tests"]
    paths = [f"{folder}/{slug}.py" for folder in ("solutions", "exercises") for slug in slugs]
    done = in_a_shell("grade", *paths, "--json")
    assert done.returncode == 1, done.stderr
    told = {r["submission"]: r for r in json.loads(done.stdout)}
    for slug in slugs:
        solution, stub = told[f"solutions/{slug}.py"], told[f"exercises/{slug}.py"]
        assert [e for e in solution["exercises"] if e["outcome"] != "passed"] == []
        assert solution["score"] == solution["max_score"] == stub["max_score"] > 0
        assert {e["outcome"] for e in stub["exercises"]} == {"not_attempted"}
        assert stub["score"] == 0


def outcomes_of(words: Sequence[str]) -> list[str]:
    return [e["outcome"] for e in json.loads(in_a_shell(*words).stdout)["exercises"]]


def test_a_solution_that_imports_the_course_s_answer_gets_nothing(tmp_path: Path) -> None:
    mine = put(
        tmp_path / "start_here.py",
        "from solutions.start_here import rms as theirs\n\ndef rms(x):\n    return theirs(x)\n",
    )
    assert outcomes_of(["grade", str(mine), "--json"]) == ["error"]


def test_an_interrupt_ends_everything_and_leaves_nothing(tmp_path: Path) -> None:
    mine = put(tmp_path / "start_here.py", "def rms(x):\n    while True:\n        pass\n")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = [sys.executable, "-m", "efflab.cli", "check", str(mine), "--no-bwrap"]
    started = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=os.environ | {"TMPDIR": str(scratch)},
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    below: set[int] = set()
    until = time.monotonic() + 120
    while len(below) < 3 and time.monotonic() < until:        # the grader, its warm worker, the submission
        time.sleep(0.2)
        below = processes.descendants(started.pid)
    assert len(below) == 3
    started.send_signal(signal.SIGINT)
    said, _ = started.communicate(timeout=60)
    assert started.returncode == 1
    assert "Aborted!" in said
    until = time.monotonic() + 10
    while below & processes.descendants(1) and time.monotonic() < until:      # killed, and not yet taken off the list
        time.sleep(0.1)
    assert not below & processes.descendants(1)
    assert list(scratch.iterdir()) == []
