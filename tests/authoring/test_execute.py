"""Executing a notebook: answers filled in, outputs kept and cleaned, nothing overwritten by a run that fails."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest

from authoring.tiny_course import DOUBLE, SOLUTION
from efflab import course as real_course
from efflab.authoring import execute
from efflab.authoring.build import build
from efflab.authoring.errors import AuthoringError
from efflab.authoring.execute import CellFailed, Executed, execute_chapter, fill_in, run
from efflab.authoring.layout import Course
from efflab.authoring.outputs import clean_text, refuse_large
from efflab.authoring.regions import Solution

ROOT = Path(__file__).resolve().parents[2]


def notebook(*sources: str, tags: tuple[str, ...] = ()) -> Any:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(s, metadata={"tags": list(tags)} if tags else {})
                                           for s in sources])
    made.metadata["efflab"] = {"built": "by hand"}
    return made


def executed(*sources: str, timeout: float = 60) -> Executed:
    return run(notebook(*sources), root=ROOT, name="x.ipynb", timeout=timeout)


def outputs(done: Executed) -> list[list[Any]]:
    return [cell.outputs for cell in done.notebook.cells]


def test_exercise_cells_get_the_answers_and_keep_their_first_line(tiny: Course) -> None:
    build(tiny, [DOUBLE])
    made = nbformat.read(tiny.notebook(DOUBLE), as_version=4)
    before = [cell.source for cell in made.cells]
    assert fill_in(made, Solution(SOLUTION, "solutions/double.py")) == ["double.double", "double.launch"]
    changed = [cell.source for cell, old in zip(made.cells, before, strict=True) if cell.source != old]
    assert changed[0] == '''\
# Exercise double.double · 1 point · about 1 minute · easy
def double(x: int) -> int:
    """Twice x."""
    x = checked(x)
    answer = x + x                                          # the secret way
    return answer'''
    assert "2 * load" in changed[1]
    assert "def launch" in changed[1]
    assert len(changed) == 2


WIDGETS = '''
import ipywidgets as w
import matplotlib
matplotlib.use("agg")
from IPython.display import display
slider, out = w.IntSlider(3, description="rows"), w.Output()
menu = w.Dropdown(options=["a", "b"], value="b", description="order")
with out:
    print("three rows")
    display({"image/png": "aGVsbG8=", "text/plain": "[Picture]",
             "text/html": '<img src="data:image/png;base64,aGVsbG8=">'}, raw=True)
display(w.VBox([w.HBox([slider, menu]), out]))
'''
QUIZ = '''
import ipywidgets as w
from IPython.display import display
box = w.VBox([w.Button(description="A")])
display({"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": box.model_id},
         "text/plain": "Quiz: A or B?"}, raw=True)
'''
NOISE = '''
import sys, warnings, torch, pathlib
print(pathlib.Path.cwd().name, torch.__file__, object(), sep="\\n")
warnings.warn("be careful")
print("10 %\\r20 %\\r30 %")
'''


def test_outputs_are_kept_and_cleaned() -> None:
    done = executed("6 * 7", WIDGETS, QUIZ, NOISE)
    plain, widget, quiz, noise = outputs(done)
    assert plain[0].data["text/plain"] == "42"
    assert widget[0].data == {"text/plain": "[Widget] rows 3 · order b. Run this cell to change it."}
    assert widget[1].text == "three rows\n"
    assert widget[2].data == {"image/png": "aGVsbG8=", "text/plain": "[Picture]"}
    assert quiz[0].data == {"text/plain": "Quiz: A or B?"}
    text = {o.name: o.text for o in noise}
    assert text["stdout"] == "run\ntorch/__init__.py\n<object object at 0x…>\n30 %\n"
    assert text["stderr"].startswith("this cell: UserWarning: be careful\n")
    written = json.dumps(outputs(done)) + json.dumps(done.notebook.metadata)
    assert str(ROOT) not in written
    assert "widget-" not in written
    assert all("execution" not in cell.metadata for cell in done.notebook.cells)
    assert done.notebook.metadata.language_info == {"name": "python"}
    assert set(done.machine) == {"gpu", "torch", "triton", "python", "date"}
    assert len(done.notebook.cells) == 4
    nbformat.validate(done.notebook)


def test_a_cell_that_raises_is_shown_with_its_source_and_traceback() -> None:
    with pytest.raises(CellFailed) as caught:
        executed("1", "x = 0\n1 / x", "never")
    message = str(caught.value)
    assert message.startswith("x.ipynb: cell 2 failed:\n    x = 0\n    1 / x\n")
    assert "ZeroDivisionError: division by zero" in message
    assert "\x1b" not in message


def test_an_exact_cell_shows_no_picture() -> None:
    with pytest.raises(AuthoringError, match=r"x.ipynb: cell 1 is tagged exact and shows a picture"):
        run(notebook("import ipywidgets\nipywidgets.IntSlider()", tags=("exact",)), root=ROOT, name="x.ipynb")


def test_a_cell_that_should_raise_may() -> None:
    done = run(notebook("1 / 0", tags=("raises-exception",)), root=ROOT, name="x.ipynb")
    assert outputs(done)[0][0].ename == "ZeroDivisionError"


def test_a_cell_that_runs_too_long_is_named() -> None:
    with pytest.raises(CellFailed, match=r"x.ipynb: cell 2 ran longer than its time limit .*:\n    while True: pass"):
        executed("1", "while True: pass", timeout=2)


def test_a_kernel_that_dies_is_named() -> None:
    with pytest.raises(CellFailed, match=r"cell 2 ended its kernel"):
        executed("1", "import os; os._exit(3)")


def test_a_run_leaves_the_learners_progress_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFFLAB_HOME", str(tmp_path))
    answer = "def rms(x):\n    return x.float().square().mean(-1).sqrt().to(x.dtype)"
    done = executed("from efflab import check", answer, "rms = check(rms)")
    assert done.outcomes == {"start_here.rms": "passed"}
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with one built notebook whose exercise is the start page's, and its solution."""
    cells = ["from efflab import check\nimport torch",
             "# Exercise start_here.rms · 1 point · about 1 minute · easy\ndef rms(x):\n    raise NotImplementedError",
             "rms = check(rms)", "print(6 * 7)"]
    made = notebook(*cells)
    made.cells[3].metadata["tags"] = ["exact"]
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "solutions").mkdir()
    nbformat.write(made, tmp_path / "notebooks" / "00_start_here.ipynb")
    answer = (ROOT / "solutions" / "start_here.py").read_text(encoding="utf-8")
    (tmp_path / "solutions" / "start_here.py").write_text(answer, encoding="utf-8")
    (tmp_path / "efflab").symlink_to(ROOT / "efflab")
    return tmp_path


def test_a_chapter_is_written_where_it_should_be(checkout: Path) -> None:
    execute_chapter(checkout, "00_start_here", out=checkout / "out")
    kept = nbformat.read(checkout / "out" / "00_start_here.ipynb", as_version=4)
    assert kept.metadata.efflab.built == ("built from notebooks/00_start_here.ipynb and solutions/start_here.py by "
                                          "`efflab execute`")
    assert "1 of 1 points" in kept.cells[2].outputs[0].data["text/plain"]
    assert kept.cells[3].metadata.tags == ["exact", "nbval-check-output"]
    source = nbformat.read(checkout / "notebooks" / "00_start_here.ipynb", as_version=4)
    assert [c.id for c in kept.cells] == [c.id for c in source.cells]


@pytest.mark.parametrize(("what", "words"), [
    ("wrong", "start_here.rms: failed"), ("unchecked", "start_here.rms: no cell checks it"), ("raises", "NameError")])
def test_nothing_is_overwritten_when_something_is_wrong(checkout: Path, what: str, words: str) -> None:
    before = checkout / "out" / "00_start_here.ipynb"
    before.parent.mkdir()
    before.write_text("as it was", encoding="utf-8")
    if what == "wrong":
        file = checkout / "solutions" / "start_here.py"
        file.write_text(file.read_text(encoding="utf-8").replace(".sqrt()", ""), encoding="utf-8")
    else:
        made = nbformat.read(checkout / "notebooks" / "00_start_here.ipynb", as_version=4)
        made.cells[2].source = "undefined" if what == "raises" else "1"
        nbformat.write(made, checkout / "notebooks" / "00_start_here.ipynb")
    with pytest.raises(CellFailed, match=words):
        execute_chapter(checkout, "00_start_here", out=before.parent)
    assert before.read_text(encoding="utf-8") == "as it was"
    assert [p.name for p in before.parent.iterdir()] == ["00_start_here.ipynb"]


def test_an_output_or_a_notebook_that_is_too_large_is_refused_with_its_cell() -> None:
    made = notebook("small", "large = 1")
    made.cells[1].outputs = [nbformat.v4.new_output("display_data", data={"image/png": "x" * 400_000})]
    with pytest.raises(AuthoringError, match=r"x: an output may have 300 kB. Too large: cell 2 \(large = 1\): 400 kB"):
        refuse_large(made, "", "x")
    made = notebook(*[f"picture_{i}" for i in range(5)])
    for cell in made.cells:
        cell.outputs = [nbformat.v4.new_output("display_data", data={"image/png": "x" * 250_000})]
    with pytest.raises(AuthoringError, match=r"x would have 1,25\d kB, allowed are 1,000. The largest outputs: cell"):
        refuse_large(made, nbformat.writes(made), "x")


@pytest.mark.parametrize(("text", "clean"), [
    ("/srv/course/efflab/x.py", "efflab/x.py"),
    ("in /srv/course.", "in .."),
    ("/srv/course2/x", "/srv/course2/x"),
    ("abc/srv/course/x", "abc/srv/course/x"),
    ("/usr/lib/python3.12/ast.py:12: DeprecationWarning: x\n", "ast.py: DeprecationWarning: x\n"),
    ("/opt/v/lib/python3.12/site-packages/torch/a.py:3: UserWarning: x", "torch/a.py:3: UserWarning: x"),
    ('File "/opt/v/lib/python3.12/dist-packages/torch/a.py"', 'File "torch/a.py"'),
    ("/tmp/ipykernel_12/345.py:1: UserWarning: x", "this cell: UserWarning: x"),
    ("<f at 0x7f0c2a3b4c5d>", "<f at 0x…>"),
    ("0x1F and 50 % 3", "0x1F and 50 % 3"),
    ("1/3\r2/3\r3/3\nend\r\n", "3/3\nend\r\n"),
])
def test_text_is_cleaned(text: str, clean: str) -> None:
    assert clean_text(text, Path("/srv/course")) == clean


def test_the_command_refuses_unknown_and_unbuilt_chapters(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute.main(["ofline"], None, 10) == 2
    assert "Did you mean" in capsys.readouterr().err
    planned = next(c for c in real_course.CHAPTERS if not c.ready)
    assert execute.main([planned.slug], None, 10) == 2
    assert f"./run build {planned.slug}" in capsys.readouterr().err


def test_executing_needs_none_of_the_authors_tools() -> None:
    """A GPU machine may have only torch, triton, numpy, matplotlib and what runs a notebook."""
    absent = "import sys\nfor name in ('click', 'jupytext', 'rich', 'yaml', 'markdown_it'): sys.modules[name] = None\n"
    made = ("import nbformat\nfrom pathlib import Path\nfrom efflab.authoring import execute\n"
            "cell = nbformat.v4.new_code_cell('print(6 * 7)')\n"
            "notebook = nbformat.v4.new_notebook(cells=[cell], metadata={'efflab': {}})\n"
            f"print(execute.run(notebook, root=Path({str(ROOT)!r}), name='x').notebook.cells[0].outputs[0].text)\n")
    done = subprocess.run([sys.executable, "-c", absent + made], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "42\n\n", done.stderr


def test_cleaning_a_picture_in_base64_takes_no_time(tmp_path: Path) -> None:
    from efflab.authoring.outputs import clean_text

    page = '<img src="data:image/png;base64,' + "iVBORw0/KGgo+AAA" * 20_000 + '">'
    started = time.perf_counter()
    assert clean_text(page, tmp_path) == page
    assert time.perf_counter() - started < 2
