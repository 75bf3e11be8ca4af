"""Run a built notebook with the solutions filled in and keep its outputs: solutions/executed/NN_slug.ipynb.

Needs nbformat, nbclient, ipykernel and ipywidgets, nothing else of the author's tools, so that it runs on a GPU
machine as it stands:  python -m efflab.authoring.execute flash_attention --out results
"""

from __future__ import annotations

import argparse
import ast
import datetime
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from efflab.authoring.errors import AuthoringError
from efflab.authoring.kernel import NAME, write_kernelspec
from efflab.authoring.layout import write_whole
from efflab.authoring.notebook import to_json, together
from efflab.authoring.outputs import refuse_inexact, refuse_large, tidy
from efflab.authoring.regions import Solution

TIMEOUT = 600       # seconds a cell
_EXERCISE = re.compile(r"# Exercise (\w+)\.(\w+) · ")
_LAST_CELL = """
import json as _json, platform as _platform
from importlib.metadata import PackageNotFoundError as _Missing, version as _version
def _of(name):
    try:
        return _version(name)
    except _Missing:
        return None
def _gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None
from efflab.checking import progress as _progress
print(_json.dumps({"machine": {"gpu": _gpu(), "torch": _of("torch"), "triton": _of("triton"),
                               "python": _platform.python_version()},
                   "outcomes": {k: v["outcome"] for k, v in _progress.load().items()}}))
"""


class CellFailed(AuthoringError):
    """A cell raised, ran too long or ended its kernel; the message holds its source and what happened."""


@dataclass(frozen=True)
class Executed:
    """notebook: with outputs, cleaned. outcomes: exercise id -> outcome of its check in this run."""

    notebook: Any
    outcomes: Mapping[str, str]

    @property
    def machine(self) -> Mapping[str, str | None]:
        return self.notebook.metadata["efflab"]["machine"]


def fingerprint(built: str) -> str:
    """Of a built notebook's text; kept in the executed one, to tell when the lesson has changed since."""
    return hashlib.sha256(built.encode("utf-8")).hexdigest()


def fill_in(notebook: Any, solution: Solution) -> list[str]:
    """Put the answers into the exercise cells, in place. Returns the exercises' ids; the first line stays."""
    filled = []
    for cell in notebook.cells:
        found = _EXERCISE.match(cell.source) if cell.cell_type == "code" else None
        if not found:
            continue
        first, _, stub = cell.source.partition("\n")
        names = tuple(n.name if hasattr(n, "name") else n.targets[0].id for n in ast.parse(stub).body)
        cell.source = first + "\n" + together(solution, names, [solution.full(n) for n in names])
        filled.append(f"{found.group(1)}.{found.group(2)}")
    return filled


def run(notebook: Any, *, root: Path, name: str, timeout: float = TIMEOUT) -> Executed:
    """Run a notebook's cells with this Python and return a cleaned copy. Raises CellFailed, AuthoringError.

    root: the checkout, importable in the kernel; its path is taken out of the outputs. name: for messages.
    """
    import nbformat

    notebook = nbformat.from_dict(notebook)
    notebook.cells.append(nbformat.v4.new_code_cell(_LAST_CELL))
    client, state = _executed(notebook, root, name, timeout)
    last = notebook.cells.pop()
    facts = json.loads("".join(o.get("text", "") for o in last.outputs if o.get("name") == "stdout"))
    refuse_inexact(notebook, name)
    captured = {model: watcher.outputs for model, watcher in client.comm_objects.items()}
    tidy(notebook, root=root, widgets=state, captured=captured)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata.setdefault("efflab", {}).update(machine={**facts["machine"], "date": today})
    return Executed(notebook, facts["outcomes"])


def _executed(notebook: Any, root: Path, name: str, timeout: float) -> tuple[Any, dict[str, Any]]:
    """Run all cells in place, in an empty folder. Returns the client and the widgets' states."""
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    with tempfile.TemporaryDirectory(prefix="efflab-execute-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        (place / "run").mkdir()
        specs = KernelSpecManager(kernel_dirs=[str(write_kernelspec(place / "jupyter", import_from=root, home=place))])
        manager = AsyncKernelManager(kernel_name=NAME, kernel_spec_manager=specs,
                                     connection_file=str(place / "kernel.json"))
        begun: list[int] = []
        client = NotebookClient(notebook, km=manager, timeout=timeout, record_timing=False,
                                on_cell_start=lambda cell, cell_index: begun.append(cell_index),
                                resources={"metadata": {"path": str(place / "run")}})
        client.widget_registry = {"@jupyter-widgets/output": {"OutputModel": _listening_output()}}
        said = place / "kernel.log"
        try:
            with said.open("wb") as log:
                client.execute(stderr=log, cleanup_kc=True)       # or the kernel would stay
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            number = begun[-1] if begun else 0
            what = _what_happened(error, notebook.cells[number], said)
            source = "\n".join(f"    {line}" for line in notebook.cells[number].source.split("\n"))
            verb, _, detail = what.partition("\n")
            raise CellFailed(f"{name}: cell {number + 1} {verb}:\n{source}\n{_plain(detail)}".rstrip()) from error
        return client, {model: dict(state) for model, state in client.widget_state.items()}


def _listening_output() -> type:
    """nbclient's capturing widget, made to listen only.

    It also tells the kernel what it captured, through the shell channel and past the event loop that waits there for
    the cell's reply. When the reply arrives meanwhile, its wake-up is lost and the run waits for ever. Nothing in a
    lesson reads the captured outputs in the kernel.
    """
    from nbclient.output_widget import OutputWidget

    class Listening(OutputWidget):
        def send(self, data: Any = None, metadata: Any = None, buffers: Any = None) -> None:
            pass

    return Listening


def _what_happened(error: Exception, cell: Any, kernel_log: Path) -> str:
    """A verb on the first line, the particulars on those after it."""
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    if isinstance(error, CellTimeoutError):
        return "ran longer than its time limit (--timeout)"
    if isinstance(error, DeadKernelError):
        last_words = kernel_log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        return "\n".join(["ended its kernel (out of memory, or a crash in a compiled library)", *last_words])
    return "failed\n" + (_traceback(cell) or str(error))


def _traceback(cell: Any) -> str:
    return "\n".join(line for o in cell.outputs if o.output_type == "error" for line in o.traceback)


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def execute_chapter(root: Path, stem: str, *, out: Path, timeout: float = TIMEOUT) -> Executed:
    """Fill in, run and keep one chapter's notebook: out/NN_slug.ipynb. Nothing is written when anything is wrong."""
    import nbformat

    built, slug = root / "notebooks" / f"{stem}.ipynb", stem.partition("_")[2]
    if not built.is_file():
        raise AuthoringError(f"notebooks/{built.name} is not there. Build it first: ./run build {slug}")
    text = built.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    exercises = fill_in(notebook, Solution.read(root / "solutions" / f"{slug}.py", f"solutions/{slug}.py"))
    for cell in notebook.cells:
        if "exact" in cell.metadata.get("tags", ()):
            cell.metadata.tags = [*cell.metadata.tags, "nbval-check-output"]
    notebook.metadata["efflab"] = {
        "built": f"built from notebooks/{built.name} and solutions/{slug}.py by `efflab execute`", "chapter": slug,
        "lesson_sha256": fingerprint(text)}
    done = run(notebook, root=root, name=f"notebooks/{built.name}", timeout=timeout)
    wrong = [_report(done, e) for e in exercises if done.outcomes.get(e) not in ("passed", "skipped")]
    if wrong:
        raise CellFailed("\n".join([f"notebooks/{built.name} ran, but with the course's own answers in it:", *wrong]))
    nbformat.validate(done.notebook)
    made = to_json(done.notebook)
    refuse_large(done.notebook, made, f"executed/{built.name}")
    write_whole(out / built.name, made)
    return done


def _report(done: Executed, exercise: str) -> str:
    """What the check of this exercise said, or that there was none."""
    name = exercise.partition(".")[2]
    said = [o.data["text/plain"] for cell in done.notebook.cells if f"check({name})" in cell.source
            for o in cell.get("outputs", ()) if "data" in o and "text/plain" in o.data]
    return "\n".join([f"{exercise}: {done.outcomes.get(exercise, 'no cell checks it')}", *said])


def main(chapters: list[str], out: Path | None, timeout: float) -> int:
    """Execute the chapters one after the other and say how it went. Returns the exit status."""
    from efflab import course

    root = course.root()
    if root is None:
        print("efflab: this efflab is installed without the course's repository; run it from a checkout.",
              file=sys.stderr)
        return 2
    try:
        stems = [course.chapter(name).file_stem for name in chapters]
    except course.UnknownChapter as error:
        print(f"efflab: {error}", file=sys.stderr)
        return 2
    status = 0
    for stem in stems:
        folder = out or root / "solutions" / "executed"
        print(f"running {stem} …", flush=True)
        try:
            done = execute_chapter(root, stem, out=folder, timeout=timeout)
        except CellFailed as error:
            print(f"efflab: {error}", file=sys.stderr)
            status = max(status, 1)
        except AuthoringError as error:
            print(f"efflab: {error}", file=sys.stderr)
            status = 2
        else:
            skipped = [e for e, outcome in done.outcomes.items() if outcome == "skipped"]
            print(f"wrote {folder / stem}.ipynb, run on {done.machine['gpu'] or 'a machine without a GPU'}"
                  + (f"; not checked here: {', '.join(skipped)}" if skipped else ""))
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m efflab.authoring.execute", description=__doc__)
    parser.add_argument("chapters", nargs="+")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--timeout", type=float, default=TIMEOUT, help="seconds a cell")
    given = parser.parse_args()
    sys.exit(main(given.chapters, given.out, given.timeout))
