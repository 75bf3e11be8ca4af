"""check, hint and solution as a learner calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import efflab
from efflab import course
from efflab.checking import interactive, progress


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path))
    monkeypatch.setattr(interactive, "_replaced", {})
    monkeypatch.setattr(interactive, "_hints_shown", {})


def rms(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean(-1).sqrt().to(x.dtype)


def test_the_learners_function_comes_back_when_it_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert efflab.check(rms) is rms
    assert "start_here.rms: passed" in capsys.readouterr().out
    assert progress.load()["start_here.rms"]["outcome"] == "passed"


def test_the_courses_function_comes_back_otherwise_and_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x.square().mean(-1)

    wrong.__name__ = "rms"
    theirs = efflab.check(wrong, seed=7)
    assert theirs is course.solution_of(course.find_exercise("rms"))
    out = capsys.readouterr().out
    assert "the course's rms" in out
    assert "(no_root)" in out
    assert "(seed 7)" in out
    assert progress.load()["start_here.rms"]["mistake"] == "no_root"


def test_running_only_the_check_cell_again_earns_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    def stub(x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("rms: your code goes here")

    stub.__name__ = "rms"
    name = efflab.check(stub)
    efflab.check(name)                                # the cell `rms = check(rms)`, run a second time
    assert "passed" not in capsys.readouterr().out
    assert progress.load()["start_here.rms"]["best"] == 0


def test_the_courses_own_function_earns_nothing() -> None:
    efflab.check(course.solution_of(course.find_exercise("rms")))
    assert progress.load()["start_here.rms"]["best"] == 0


def test_hints_come_one_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    for n in (1, 2, 3, 3):
        efflab.hint(rms)
        assert capsys.readouterr().out.count("Hint ") == n


def test_an_unknown_function_says_which_names_come_close() -> None:
    def rmss(x: torch.Tensor) -> torch.Tensor:
        return x

    with pytest.raises(course.UnknownExercise, match="Did you mean rms"):
        efflab.check(rmss)
    with pytest.raises(TypeError, match="take the function that you wrote"):
        efflab.check(3)                               # type: ignore[arg-type]


def test_progress_that_cannot_be_written_does_not_stop_a_check(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path / "file" / "below"))
    assert efflab.check(rms) is rms
    assert "EFFLAB_HOME" in capsys.readouterr().out


def test_solution_asks_first(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    efflab.solution(rms)
    assert "Nothing shown" in capsys.readouterr().out
    efflab.solution(rms, sure=True)
    assert "def rms" in capsys.readouterr().out


def test_unknown_chapters_get_a_suggestion() -> None:
    with pytest.raises(course.UnknownChapter, match="Did you mean start_here"):
        course.chapter("start_her")
    with pytest.raises(course.UnknownChapter, match="planned and not written yet"):
        course.exercises("zero")
