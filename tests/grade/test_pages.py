"""The files that --out writes: nothing of a submission is markup, a formula, or a path."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from efflab.checking.report import Report
from efflab.grade import pages
from efflab.grade.grading import Result


def result(name: str, message: str = "All 2 cases pass.", outcome: Any = "passed") -> Result:
    report = Report(
        exercise_id="toys.double",
        outcome=outcome,
        points=3 if outcome == "passed" else 0,
        max_points=3,
        message=message,
    )
    return Result(name, [report], notes=[message])


EVIL = "<script>alert(1)</script>\"'&<img src=x onerror=y>"
NAMES = [
    EVIL,
    "../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "a b",
    "a_b",
    "A_B",
    "index",
    "",
    "李雷",
    "\x00\x1b[31m",
    "x" * 500,
    "-rf",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages.write([result(n, EVIL, "failed") for n in NAMES], tmp_path / "out", seed=7, walls="Isolation: <none>")
    return tmp_path / "out"


def test_names_stay_inside_the_folder_and_apart(folder: Path) -> None:
    written = sorted(p.name for p in folder.iterdir())
    assert len(written) == len(NAMES) + 2
    assert len({n.lower() for n in written}) == len(written)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+\.(html|csv)", n) for n in written)
    assert sorted(p.name for p in folder.parent.iterdir()) == ["out"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        given = dict(attrs)
        assert not any(name.startswith("on") for name in given)
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""


def test_everything_is_escaped_under_a_strict_policy(folder: Path) -> None:
    for page in folder.glob("*.html"):
        tags = _Tags()
        tags.feed(page.read_text(encoding="utf-8"))
        assert not tags.seen & {"script", "img", "iframe", "object", "link", "form", "base"}
        assert tags.policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
        assert "http" not in re.sub(r"http-equiv", "", page.read_text(encoding="utf-8"))


def test_every_link_of_the_index_leads_somewhere(folder: Path) -> None:
    links = re.findall(r'href="([^"]+)"', (folder / "index.html").read_text(encoding="utf-8"))
    assert len(links) == len(NAMES)
    assert all((folder / link).is_file() for link in links)


def test_the_csv_holds_no_formulas(folder: Path) -> None:
    with (folder / "grades.csv").open(newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["submission", "score", "max_score", "toys.double points", "toys.double outcome", "problem"]
    assert [r[1:5] for r in rows] == [["0", "3", "0", "failed"]] * len(NAMES)
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    assert rows[0][0] == EVIL


def test_a_submission_that_was_not_graded_has_its_page(tmp_path: Path) -> None:
    pages.write([Result("a", problem="a.ipynb is <not> JSON."), result("b")], tmp_path, seed=1, walls="")
    assert "a.ipynb is &lt;not&gt; JSON." in (tmp_path / "a.html").read_text(encoding="utf-8")
    with (tmp_path / "grades.csv").open(newline="", encoding="utf-8") as file:
        assert next(r for r in csv.reader(file) if r[0] == "a") == ["a", "0", "0", "", "", "a.ipynb is <not> JSON."]
