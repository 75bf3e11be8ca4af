"""The learner's copies: made once, never overwritten, offered anew beside, set aside on request."""

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from efflab import course
from efflab.workspace import commands, copies

LESSON = "00_start_here.ipynb"


def notebook(*cells: str, **extra: object) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell, "outputs": [], **extra} for cell in cells],
                       "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> copies.Workspace:
    for folder in ("notebooks", "exercises"):
        (tmp_path / folder).mkdir()
    (tmp_path / "notebooks" / LESSON).write_text(notebook("lesson one"))
    (tmp_path / "exercises" / "start_here.py").write_text("def stub(): ...\n")
    monkeypatch.setattr(course, "root", lambda: tmp_path)
    monkeypatch.setattr(copies, "_today", lambda: "2030-01-02")
    monkeypatch.chdir(tmp_path)
    return copies.Workspace(tmp_path, tmp_path / "work")


def refresh(space: copies.Workspace) -> list[str]:
    return copies.refresh(space, copies.lessons(space))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_missing_copy_is_made_and_a_second_refresh_does_nothing(space: copies.Workspace) -> None:
    assert refresh(space) == [f"{LESSON}: copied to work/{LESSON}"]
    before = (space.work / LESSON).stat().st_mtime_ns
    assert refresh(space) == []
    assert (space.work / LESSON).stat().st_mtime_ns == before
    assert (space.work / LESSON).read_text() == notebook("lesson one")


def test_an_edited_copy_stays_and_the_newer_lesson_is_laid_beside_it_once(space: copies.Workspace) -> None:
    refresh(space)
    (space.work / LESSON).write_text(notebook("my own work"))
    assert refresh(space) == []
    (space.checkout / "notebooks" / LESSON).write_text(notebook("lesson two"))
    (line,) = refresh(space)
    assert "work/00_start_here.new-2030-01-02.ipynb" in line
    assert (space.work / LESSON).read_text() == notebook("my own work")
    assert (space.work / "00_start_here.new-2030-01-02.ipynb").read_text() == notebook("lesson two")
    assert refresh(space) == []
    # The learner deletes the offer: it is not made a second time, but the next version is, on the same day too.
    (space.work / "00_start_here.new-2030-01-02.ipynb").write_text(notebook("begun"))
    assert refresh(space) == []
    (space.checkout / "notebooks" / LESSON).write_text(notebook("lesson three"))
    refresh(space)
    assert names(space.work) == [LESSON, "00_start_here.new-2030-01-02-2.ipynb", "00_start_here.new-2030-01-02.ipynb"]
    assert (space.work / "00_start_here.new-2030-01-02.ipynb").read_text() == notebook("begun")


def test_a_copy_that_was_only_run_and_saved_is_made_again_after_a_backup(space: copies.Workspace) -> None:
    refresh(space)
    saved = notebook("lesson one", execution_count=3)
    (space.work / LESSON).write_text(saved)
    (space.checkout / "notebooks" / LESSON).write_text(notebook("lesson two"))
    (line,) = refresh(space)
    assert "backups/00_start_here-2030-01-02.ipynb" in line
    assert (space.work / LESSON).read_text() == notebook("lesson two")
    assert (space.backups / "00_start_here-2030-01-02.ipynb").read_text() == saved


@pytest.mark.parametrize("damage", ["", "[1]", '{"00_start_here.ipynb": 3}', None])
def test_a_damaged_or_lost_state_file_costs_no_work(space: copies.Workspace, damage: str | None) -> None:
    refresh(space)
    (space.work / LESSON).write_text(notebook("my own work"))
    if damage is None:
        space.state.unlink()
    else:
        space.state.write_text(damage)
    (line,) = refresh(space)
    assert "beside your copy" in line
    assert (space.work / LESSON).read_text() == notebook("my own work")
    assert refresh(space) == []


def test_a_copy_that_is_no_notebook_any_more_counts_as_edited(space: copies.Workspace) -> None:
    refresh(space)
    (space.work / LESSON).write_text("<<<<<<< not JSON")
    (space.checkout / "notebooks" / LESSON).write_text(notebook("lesson two"))
    refresh(space)
    assert (space.work / LESSON).read_text() == "<<<<<<< not JSON"


def test_start_copies_a_stub_once_and_says_how_to_check_it(space: copies.Workspace) -> None:
    first = CliRunner().invoke(commands.start, ["start_here"])
    assert first.exit_code == 0
    assert "./run check work/start_here.py" in first.output
    (space.work / "start_here.py").write_text("mine")
    second = CliRunner().invoke(commands.start, ["start_here"])
    assert second.exit_code == 0
    assert "stays as it is" in second.output
    assert (space.work / "start_here.py").read_text() == "mine"


def test_reset_moves_every_copy_of_the_chapter_to_a_backup(space: copies.Workspace) -> None:
    refresh(space)
    CliRunner().invoke(commands.start, ["start_here"])
    (space.work / LESSON).write_text(notebook("my own work"))
    (space.work / "start_here.py").write_text("mine")
    (space.work / "00_start_here.new-2029-12-31.ipynb").write_text(notebook("an offer"))
    result = CliRunner().invoke(commands.reset, ["start_here"])
    assert result.exit_code == 0
    assert names(space.work) == [LESSON, "backups", "start_here.py"]
    assert (space.work / LESSON).read_text() == notebook("lesson one")
    assert (space.backups / "00_start_here-2030-01-02.ipynb").read_text() == notebook("my own work")
    assert (space.backups / "start_here-2030-01-02.py").read_text() == "mine"
    CliRunner().invoke(commands.reset, ["start_here"])
    assert (space.backups / "00_start_here-2030-01-02.ipynb").read_text() == notebook("my own work")
    assert (space.backups / "00_start_here-2030-01-02-2.ipynb").exists()


@pytest.mark.parametrize("command", [commands.start, commands.reset])
@pytest.mark.parametrize(("slug", "says"), [("star_here", "Did you mean start_here?"), ("zero", "planned")])
def test_an_unknown_or_planned_chapter_is_explained(
        space: copies.Workspace, command: object, slug: str, says: str) -> None:
    result = CliRunner().invoke(command, [slug])  # type: ignore[arg-type]
    assert result.exit_code == 2
    assert says in result.output


def test_a_full_disk_costs_no_copy_and_leaves_no_rubbish(
        space: copies.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh(space)
    (space.work / LESSON).write_text(notebook("my own work"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "work/x")

    monkeypatch.setattr(os, "fsync", full)
    result = CliRunner().invoke(commands.reset, ["start_here"])
    assert result.exit_code == 2
    assert "No space left on device" in result.output
    assert (space.work / LESSON).read_text() == notebook("my own work")
    assert [path.name for path in space.work.iterdir() if path.suffix == ".ipynb"] == [LESSON]


def test_without_a_checkout_the_commands_say_where_to_get_one(
        space: copies.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "root", lambda: None)
    monkeypatch.setattr(course, "repository", lambda: "https://example.org/course")
    result = CliRunner().invoke(commands.start, ["start_here"])
    assert result.exit_code == 2
    assert "https://example.org/course" in result.output


def test_lab_opens_the_start_page_with_the_options_it_was_given(
        space: copies.Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda _, command: started.append(command))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    result = CliRunner().invoke(commands.lab, ["--", "--no-browser", "--port", "8899"])
    assert result.exit_code == 0, result.output
    assert started[0][1:] == ["-m", "jupyterlab", "--no-browser", "--port", "8899", str(space.work / LESSON)]


@pytest.mark.parametrize(("uid", "variables", "options"), [
    (0, {}, ["--allow-root"]),
    (1000, {"SSH_CONNECTION": "x"}, ["--no-browser"]),
    (1000, {"SSH_CONNECTION": "x", "DISPLAY": ":10"}, []),
])
def test_server_options_follow_the_machine(
        monkeypatch: pytest.MonkeyPatch, uid: int, variables: dict[str, str], options: list[str]) -> None:
    for name in ("SSH_CONNECTION", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert commands.server_options() == options
