"""efflab new: a chapter that builds, passes its own checks and tests, and is never laid over another one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from authoring.tiny_course import CHAPTERS
from efflab import course
from efflab.authoring import commands
from efflab.authoring.errors import AuthoringError
from efflab.authoring.layout import Course, this_course
from efflab.authoring.skeleton import lay_out, skeleton_files

ROOT = Path(__file__).resolve().parents[2]
LONGEST = max(course.CHAPTERS, key=lambda c: len(c.slug))


def test_files_are_laid_out_once(tiny: Course) -> None:
    halve = CHAPTERS[1]
    written = lay_out(tiny, halve)
    assert {tiny.shown(p) for p in written} == {
        "notebooks/01_halve.md", "solutions/halve.py", "tests/chapters/test_halve.py",
        *(f"efflab/chapters/halve/{name}.py" for name in ("__init__", "checks", "mistakes", "figures"))}
    for path in written:
        assert "{{" not in path.read_text(encoding="utf-8")
        path.write_text("mine", encoding="utf-8")
    written[0].unlink()
    with pytest.raises(AuthoringError, match=r"has been begun: solutions/halve.py, .*Nothing was written"):
        lay_out(tiny, halve)
    assert not written[0].exists()
    assert all(path.read_text(encoding="utf-8") == "mine" for path in written[1:])


def test_an_unknown_chapter_ends_the_command_with_status_2() -> None:
    done = CliRunner().invoke(commands.new, ["retentoin"])
    assert done.exit_code == 2
    assert "Did you mean retention" in done.output


def test_a_chapter_that_is_written_is_refused() -> None:
    done = CliRunner().invoke(commands.new, ["start_here"])
    assert done.exit_code == 2
    assert "Nothing was written" in done.output


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course in which the chapter with the longest name is newly laid out and built."""
    top = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("efflab", "solutions"):
        shutil.copytree(ROOT / name, top / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", top)
    (top / "notebooks").mkdir()
    (top / "tests" / "chapters").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "chapters" / "test_every_chapter.py", top / "tests" / "chapters")
    real = this_course()
    for path in skeleton_files(Course(top, real.repository, real.chapters, real.exercises), LONGEST):
        path.unlink(missing_ok=True)
    assert run(top, "-m", "efflab.cli", "new", LONGEST.slug).returncode == 0
    assert run(top, "-m", "efflab.cli", "build", LONGEST.slug).returncode == 0
    return top


def run(top: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(top)}
    done = subprocess.run([sys.executable, *arguments], cwd=top, env=environment, capture_output=True, text=True,
                          check=False)
    print(done.stdout[-3000:], done.stderr[-3000:])
    return done


def test_a_new_chapter_passes_its_tests(copy: Path) -> None:
    done = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k", LONGEST.slug)
    assert done.returncode == 0
    assert "passed" in done.stdout


def test_a_new_chapter_runs_with_its_solutions_filled_in(copy: Path) -> None:
    assert run(copy, "-m", "efflab.cli", "execute", LONGEST.slug, "--out", str(copy / "out")).returncode == 0
    assert (copy / "out" / f"{LONGEST.file_stem}.ipynb").is_file()


def test_a_new_chapter_is_clean_code(copy: Path) -> None:
    new = [str(p.relative_to(copy)) for p in copy.rglob(f"*{LONGEST.slug}*") if p.suffix == ".py" or p.is_dir()]
    assert len(new) >= 3
    assert run(copy, "-m", "ruff", "check", *[n for n in new if not n.startswith("exercises")]).returncode == 0
