"""efflab build and efflab build --check, on a small course and through the command line."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authoring.tiny_course import CHAPTERS, DOUBLE, SOLUTION
from efflab.authoring import commands, layout
from efflab.authoring.build import build, differences, stale_files
from efflab.authoring.errors import AuthoringError
from efflab.authoring.execute import fingerprint
from efflab.authoring.layout import Course

WRITTEN = (CHAPTERS[0], DOUBLE)


def test_a_build_writes_notebooks_and_stubs_and_a_second_one_nothing(tiny: Course) -> None:
    assert {tiny.shown(p) for p in build(tiny, WRITTEN)} == {
        "notebooks/00_start.ipynb", "exercises/start.py", "notebooks/02_double.ipynb", "exercises/double.py"}
    assert build(tiny, WRITTEN) == []
    assert differences(tiny, WRITTEN) == []
    assert stale_files(tiny) == []
    mode = stat.S_IMODE(tiny.notebook(DOUBLE).stat().st_mode)
    assert mode == 0o644


def test_nothing_is_written_when_one_chapter_cannot_be_built(tiny: Course) -> None:
    tiny.solution(DOUBLE).write_text("def broken(:\n", encoding="utf-8")
    with pytest.raises(AuthoringError, match=r"^solutions/double.py:1: "):
        build(tiny, WRITTEN)
    assert not tiny.notebook(CHAPTERS[0]).exists()


def test_a_failed_write_leaves_the_old_file_and_no_litter(tiny: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tiny, WRITTEN)
    before = tiny.stubs(DOUBLE).read_bytes()
    tiny.solution(DOUBLE).write_text(SOLUTION + "\nMORE = 1\n", encoding="utf-8")

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        build(tiny, WRITTEN)
    assert tiny.stubs(DOUBLE).read_bytes() == before
    assert not list(tiny.root.glob("*/.*"))


def test_each_kind_of_difference_is_found(tiny: Course) -> None:
    build(tiny, WRITTEN)
    tiny.stubs(CHAPTERS[0]).unlink()
    notebook = tiny.notebook(DOUBLE)
    edited = notebook.read_text(encoding="utf-8").replace("Doubling took", "Doubling needs")
    notebook.write_text(edited, encoding="utf-8")
    found = {tiny.shown(d.path): d for d in differences(tiny, WRITTEN)}
    assert {name: d.kind for name, d in found.items()} == {
        "exercises/start.py": "missing", "notebooks/02_double.ipynb": "different"}
    assert "-    \"Doubling needs 3 s" in found["notebooks/02_double.ipynb"].diff
    assert "+    \"Doubling took 3 s" in found["notebooks/02_double.ipynb"].diff


def test_line_ends_that_git_changed_are_no_difference(tiny: Course) -> None:
    build(tiny, WRITTEN)
    stubs = tiny.stubs(DOUBLE)
    stubs.write_bytes(stubs.read_bytes().replace(b"\n", b"\r\n"))
    assert differences(tiny, WRITTEN) == []


def test_built_files_without_a_source_are_stale(tiny: Course) -> None:
    build(tiny, WRITTEN)
    tiny.lesson(DOUBLE).unlink()
    executed = tiny.executed(DOUBLE)
    executed.parent.mkdir()
    executed.touch()
    (tiny.root / "exercises" / "unknown.py").touch()
    assert [tiny.shown(d.path) for d in stale_files(tiny)] == [
        "exercises/unknown.py", "notebooks/02_double.ipynb", "solutions/executed/02_double.ipynb"]


@pytest.fixture
def run(tiny: Course, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """The build command on the small course."""
    monkeypatch.setattr(commands, "this_course", lambda: tiny)

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(commands.build, list(arguments))

    return invoke


def test_the_command_builds_and_checks(tiny: Course, run) -> None:  # type: ignore[no-untyped-def]
    missing = run("--check")
    assert missing.exit_code == 1
    assert "notebooks/02_double.ipynb is missing; run: ./run build" in missing.output
    done = run()
    assert done.exit_code == 0
    assert "wrote notebooks/02_double.ipynb" in done.output
    assert run("--check").exit_code == 0
    tiny.stubs(DOUBLE).write_text("# changed by hand\n", encoding="utf-8")
    differs = run("--check")
    assert differs.exit_code == 1
    assert "exercises/double.py differs from its sources." in differs.output
    assert "-# changed by hand" in differs.output


def test_a_run_older_than_its_lesson_is_mentioned(tiny: Course, run) -> None:  # type: ignore[no-untyped-def]
    run()
    executed = tiny.executed(DOUBLE)
    for ran_on, mentioned in ((fingerprint(tiny.notebook(DOUBLE).read_text("utf-8")), False), ("x", True)):
        layout.write_whole(executed, json.dumps({"metadata": {"efflab": {"lesson_sha256": ran_on}}}))
        done = run("--check")
        assert done.exit_code == 0
        assert ("on a GPU run: ./run execute double" in done.output) is mentioned


def test_the_command_says_what_a_chapter_still_lacks(tiny: Course, run) -> None:  # type: ignore[no-untyped-def]
    tiny.lesson(DOUBLE).unlink()
    done = run()
    assert done.exit_code == 0
    assert "02_double is not built yet: notebooks/02_double.md is not there." in done.output
    assert not tiny.notebook(DOUBLE).exists()


def test_a_bad_source_ends_the_command_with_status_2(tiny: Course, run) -> None:  # type: ignore[no-untyped-def]
    tiny.lesson(DOUBLE).write_text("```{note}\n```\n", encoding="utf-8")
    for arguments in ((), ("--check",)):
        done = run(*arguments)
        assert done.exit_code == 2
        assert "notebooks/02_double.md:1: " in done.output


def test_an_unknown_chapter_ends_the_command_with_status_2(run) -> None:  # type: ignore[no-untyped-def]
    done = run("ofline")
    assert done.exit_code == 2
    assert "Did you mean" in done.output


def test_a_planned_chapter_that_is_named_ends_the_command_with_status_2(monkeypatch: pytest.MonkeyPatch) -> None:
    real = layout.this_course()
    planned = next(c for c in real.chapters if not c.ready)
    done = CliRunner().invoke(commands.build, [planned.slug])
    assert done.exit_code == 2
    assert f"./run new {planned.slug}" in done.output


def test_the_repositorys_built_files_agree_with_their_sources() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-m", "efflab.cli", "build", "--check"], cwd=root, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
