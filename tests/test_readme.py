"""README.md and CONTRIBUTING.md say what is so: the made parts are up to date, links lead somewhere, commands exist."""

import json
import re
from pathlib import Path

import pytest

from efflab import course
from efflab.authoring import readme
from efflab.cli import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_map_and_the_speeds_are_those_of_the_repository() -> None:
    assert readme.rewrite(README, ROOT) == README, "run: python -m efflab.authoring.readme"


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_link_leads_to_a_file(text: str) -> None:
    missing = [path for path in readme.quoted_files(text) if not (ROOT / path).exists()]
    assert not missing


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_command_exists(text: str) -> None:
    named = set(re.findall(r"\./run ([a-z]+)", text))
    assert named <= set(COMMANDS) | {"setup", "test", "help"}
    for script in re.findall(r"python ((?:benchmarks|tests)/\S+\.py)", text):
        assert (ROOT / script).is_file(), script


def test_the_two_commands_come_first() -> None:
    first = README.split("```")[1]
    assert [line.split("#")[0].strip() for line in first.splitlines()[2:]] == ["./run lab", "./run test", ""][:2]
    assert f"git clone {course.repository()} " in first


def test_every_chapter_is_on_the_map_and_only_written_ones_are_linked() -> None:
    rows = dict(re.findall(r"^\| (\d\d) \| (.*)$", README, re.M))
    assert list(rows) == [f"{chapter.number:02d}" for chapter in course.CHAPTERS]
    for chapter in course.CHAPTERS:
        assert chapter.title in rows[f"{chapter.number:02d}"]
        assert ("planned" in rows[f"{chapter.number:02d}"]) is not chapter.ready


def test_speeds_are_read_from_the_result_files(tmp_path: Path) -> None:
    assert "./run bench" in readme.speeds(tmp_path)
    (tmp_path / "results").mkdir()
    bar = {"exercise": "x.fused", "name": "big", "peer": "clone", "ms": 2.0, "peer_ms": 1.9, "ratio": 0.951,
           "tflops": None, "peer_tflops": None, "tbps": 4.068, "peer_tbps": 4.28}
    second = bar | {"name": "big, against mine", "peer": "mine", "ratio": 1.2}
    result = {"gpu": "Toy GPU", "date": "2030-01-02", "torch": "3.0", "triton": "4.0",
              "chapters": {"x": {"bars": [bar, second, bar | {"name": "other", "ratio": None}]}}}
    (tmp_path / "results" / "Toy_GPU.json").write_text(json.dumps(result))
    text = readme.speeds(tmp_path)
    assert "On one Toy GPU (torch 3.0, Triton 4.0, 2030-01-02), " in text
    assert "| `fused`, big | 4.07 TB/s | 0.95 × torch.clone, 1.20 × `mine` |" in text
    assert "other" not in text


def test_a_readme_without_marks_is_refused() -> None:
    with pytest.raises(readme.MissingMark, match="speeds"):
        readme.rewrite("# no marks\n", ROOT)
