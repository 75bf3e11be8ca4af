"""One folder of submissions that misbehave, graded once with bubblewrap and once without: each mark is right."""

from __future__ import annotations

import os
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks import ATTACKS, WALLED

from efflab.grade import client, isolate, protocol
from efflab.grade.grading import Result


def source(body: str, right: str) -> str:
    return right.replace("    return x * 2\n", textwrap.indent(body.strip("\n"), "    ") + "\n")


@pytest.fixture(scope="module")
def listening() -> Iterator[int]:
    """A server on this machine that a submission must not reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope="module")
def graded(walls: isolate.Walls, right: str, grade, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("class") / "toys"
    for name, (body, _, _) in ATTACKS.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "toys.py").write_text(source(body, right), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "PROCESSES", 30)
        patch.setattr(protocol, "MAX_REPLY", 8 << 20)
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
        filled = body.format(sentinel=sentinel, root=root, port=listening, home=Path.home())
        (tmp_path / "class" / name).mkdir(parents=True)
        (tmp_path / "class" / name / "toys.py").write_text(
            source(filled + "assert held\nreturn x * 2\n", right), encoding="utf-8"
        )
    results = grade(bwrap_walls, tmp_path / "class")
    assert {r.submission: r.reports[0].outcome for r in results} == dict.fromkeys(sorted(WALLED), "passed")
    assert sentinel.read_text() == "still here"
    assert not Path("/usr/efflab_was_here").exists()
    assert not (root / "efflab" / "was_here").exists()
