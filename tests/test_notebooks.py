"""Every notebook runs from top to bottom: the lessons with nothing filled in, the executed ones as they are kept.

nbval runs each in a fresh kernel of this Python. In solutions/executed, the outputs of cells tagged "exact" must come
out again.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from efflab.authoring.kernel import write_kernelspec

ROOT = Path(__file__).resolve().parents[1]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
EXECUTED = sorted((ROOT / "solutions" / "executed").glob("*.ipynb"))
MAX_SECONDS = 90        # for a whole lesson, on two cores without a GPU
CELL_SECONDS = 120      # the longest that one cell may take before it is stopped


def nbval(notebook: Path, place: Path, *, root: Path = ROOT) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run one notebook through nbval. Returns the finished process and the seconds that it took.

    Seconds: of the clock or of the processor, whichever is less, so that a busy machine fails no lesson.
    """
    write_kernelspec(place / "jupyter", import_from=root, home=place)
    environment = {**os.environ, "JUPYTER_PATH": str(place / "jupyter"), "JUPYTER_PREFER_ENV_PATH": "0",
                   "JUPYTER_RUNTIME_DIR": str(place / "runtime"), "JUPYTER_DATA_DIR": str(place / "data")}
    command = [sys.executable, "-m", "pytest", "-q", "--nbval-lax", f"--nbval-cell-timeout={CELL_SECONDS}",
               "-p", "no:cacheprovider", "-p", "no:timeout", "-c", os.devnull, f"--rootdir={notebook.parent}",
               str(notebook)]
    started, cpu = time.monotonic(), _children_cpu()
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=540)
    return done, min(time.monotonic() - started, _children_cpu() - cpu)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.timeout(600)
@pytest.mark.parametrize("notebook", LESSONS, ids=lambda p: p.stem)
def test_a_lesson_runs_with_nothing_filled_in(notebook: Path, tmp_path: Path) -> None:
    done, seconds = nbval(notebook, tmp_path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert seconds < MAX_SECONDS, f"{notebook.name} took {seconds:.0f} s; {MAX_SECONDS} s are allowed"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("notebook", EXECUTED, ids=lambda p: p.stem)
def test_an_executed_notebook_gives_its_exact_outputs_again(notebook: Path, tmp_path: Path) -> None:
    done, _ = nbval(notebook, tmp_path)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.parametrize("notebook", EXECUTED, ids=lambda p: p.stem)
def test_an_executed_notebook_is_light_and_says_where_it_ran(notebook: Path) -> None:
    assert notebook.stat().st_size < 1_000_000
    text = notebook.read_text(encoding="utf-8")
    assert str(ROOT) not in text
    assert "widget-view" not in text
    machine = nbformat.reads(text, as_version=4).metadata["efflab"]["machine"]
    assert set(machine) == {"gpu", "torch", "triton", "python", "date"}


def _notebook(path: Path, *cells: tuple[str, str | None]) -> Path:
    """A notebook of code cells with what they printed; cells with an output are compared."""
    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for source, printed in cells:
        cell = nbformat.v4.new_code_cell(source)
        if printed is not None:
            cell.metadata["tags"] = ["exact", "nbval-check-output"]
            cell.execution_count = 1
            cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
        made.cells.append(cell)
    nbformat.write(made, path)
    return path


def test_a_cell_that_raises_fails_the_run(tmp_path: Path) -> None:
    done, _ = nbval(_notebook(tmp_path / "bad.ipynb", ("1 / 0", None)), tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout


def test_an_exact_output_that_changed_fails_the_run(tmp_path: Path) -> None:
    right = _notebook(tmp_path / "right.ipynb", ("print(6 * 7)", "42\n"), ("import time; print(time.time())", None))
    assert nbval(right, tmp_path)[0].returncode == 0
    wrong = _notebook(tmp_path / "wrong.ipynb", ("print(6 * 7)", "43\n"))
    assert nbval(wrong, tmp_path)[0].returncode == 1


def test_the_kernel_is_this_python_and_keeps_no_progress_of_the_learner(tmp_path: Path) -> None:
    source = ("import os, sys, efflab\n"
              "from efflab.checking import progress\n"
              f"assert sys.executable == {sys.executable!r}\n"
              f"assert efflab.__file__.startswith({str(ROOT)!r})\n"
              f"assert str(progress.path()).startswith({str(tmp_path)!r})")
    done, _ = nbval(_notebook(tmp_path / "where.ipynb", (source, None)), tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
