"""Progress survives restarts, damage, a full disk and other writers."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from efflab.checking import progress
from efflab.checking.commands import progress as command
from efflab.checking.report import Report


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def report(outcome: str = "passed", points: float = 3, name: str = "start_here.rms") -> Report:
    return Report(exercise_id=name, outcome=outcome, points=points, max_points=3, message="")     # type: ignore[arg-type]


def test_the_best_outcome_stays_known() -> None:
    progress.record(report())
    progress.record(report("failed", 0))
    entry = progress.load()["start_here.rms"]
    assert (entry["outcome"], entry["best"], entry["tries"]) == ("failed", 3, 2)


def test_a_damaged_file_is_set_aside(home: Path) -> None:
    for text in ("{", "[]", '{"version": 99, "exercises": {}}', '{"version": 1, "exercises": {"a": 3}}', "\x00\xff"):
        home.mkdir(exist_ok=True)
        (home / "progress.json").write_bytes(text.encode("latin-1"))
        assert progress.load() == {}
    assert len(list(home.glob("progress.damaged-*.json"))) == 5, "each one is kept"
    progress.record(report())
    assert progress.load()


def test_a_full_disk_has_its_own_message_and_loses_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    progress.record(report(name="a.b"))

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(progress.ProgressError, match=r"No space left on device.*EFFLAB_HOME"):
        progress.record(report(name="c.d"))
    monkeypatch.undo()
    os.environ["EFFLAB_HOME"] = str(home)
    assert set(progress.load()) == {"a.b"}
    assert not list(home.glob(".progress-*")), "no half-written file is left"


def test_export_and_import(tmp_path: Path, home: Path) -> None:
    progress.record(report())
    file = tmp_path / "mine.json"
    run = CliRunner()
    assert run.invoke(command, ["export", str(file)]).exit_code == 0
    assert run.invoke(command, ["export", str(file)]).exit_code == 2, "it does not overwrite"
    (home / "progress.json").unlink()
    assert run.invoke(command, ["import", str(file)]).exit_code == 0
    assert progress.load()["start_here.rms"]["best"] == 3
    progress.record(report("failed", 0))
    assert progress.import_from(file) == 0, "what is as good stays"
    file.write_text(json.dumps({"no": 1}))
    result = run.invoke(command, ["import", str(file)])
    assert result.exit_code == 2
    assert "not a progress file" in result.output
    assert run.invoke(command, ["import", str(tmp_path / "missing.json")]).exit_code == 2


def test_the_map_shows_every_chapter() -> None:
    progress.record(report(points=1))
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0
    assert "1 of 1 exercises" in result.output
    assert "planned" in result.output
