"""The course's own speed, by the benchmark's measurements, with room for a machine that is busy with other tests.

benchmarks/course_speed.py has the limits themselves and measures lessons and grading too.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import course_speed

BUSY = 3  # how much slower a step may be while the other core runs tests


def test_import_adds_little_to_torch() -> None:
    (measured,) = course_speed.measure_import(tries=3)
    assert measured.share <= 1, measured


def test_checks_are_quick() -> None:
    slow = [measured for measured in course_speed.measure_checks() if measured.share > BUSY]
    assert not slow


@pytest.mark.parametrize("words", [["nonsense"], ["import", "check"]])
def test_an_unknown_part_is_refused(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["course_speed.py", *words])
    with pytest.raises(SystemExit) as stopped:
        course_speed.main()
    assert stopped.value.code == 2
