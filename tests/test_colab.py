"""The setup cell of each notebook, run as it stands where only torch, triton, numpy and ipykernel are installed.

The repository's address is pointed at a local copy by git's own configuration; the cell is not touched.
"""

import importlib.metadata
import json
import re
import shutil
import subprocess
import venv
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from packaging.requirements import Requirement

from efflab import course

ROOT = Path(__file__).resolve().parents[1]
GIVEN = ("torch", "triton", "numpy", "ipykernel")
NOTEBOOKS = [path for chapter in course.ready_chapters()
             if (path := ROOT / "notebooks" / f"{chapter.file_stem}.ipynb").is_file()]
WHERE = "import torch, triton, numpy; print([[m.__version__, m.__file__] for m in (torch, triton, numpy)])"


def closure(names: tuple[str, ...]) -> set[str]:
    """These packages and all that they require, without extras."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


def link(names: set[str], folder: Path) -> None:
    """Links in `folder` to everything that these packages installed, so that torch need not be copied."""
    folder.mkdir()
    for name in names:
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            target = folder / top
            if not target.exists():
                target.symlink_to(Path(str(distribution.locate_file(top))))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that has the GIVEN packages and nothing else of ours."""
    top = tmp_path_factory.mktemp("colab")
    link(closure(GIVEN), top / "given")
    venv.create(top / "venv", with_pip=True, symlinks=True)
    (packages,) = (top / "venv" / "lib").glob("python3.*/site-packages")
    # Outside the environment: pip sees the packages and can neither change nor remove them.
    (packages / "given.pth").write_text(f"{top / 'given'}\n")
    return top / "venv" / "bin" / "python"


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables that make git take the repository's address from a copy of this working tree."""
    copy = tmp_path_factory.mktemp("repository")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "copy"]):
        subprocess.run(["git", *command], cwd=copy, check=True)
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{copy.as_uri()}.insteadOf",
            "GIT_CONFIG_VALUE_0": course.repository(), "EFFLAB_HOME": str(tmp_path_factory.mktemp("home"))}


def run_cells(python: Path, surroundings: dict[str, str], cells: list[Any], folder: Path) -> str:
    """Run notebook cells in a fresh kernel of this Python; returns what they printed. Raises what they raise."""
    spec = folder / "kernels" / "clean" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "clean", "language": "python", "env": surroundings}))
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
    manager = AsyncKernelManager(kernel_name="clean", kernel_spec_manager=specs)
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, km=manager, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)


def setup_cell(notebook: Path) -> Any:
    cells = nbformat.read(notebook, as_version=4).cells
    return next(cell for cell in cells if cell.cell_type == "code")


def given_packages(python: Path) -> str:
    return subprocess.run([python, "-I", "-c", WHERE], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def installed(clean: Path, surroundings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clean environment after the first notebook ran in it from top to bottom."""
    before = given_packages(clean)
    missing = subprocess.run([clean, "-I", "-c", "import efflab"], capture_output=True, text=True)
    assert "No module named 'efflab'" in missing.stderr
    cells = nbformat.read(NOTEBOOKS[0], as_version=4).cells
    run_cells(clean, surroundings, cells, tmp_path_factory.mktemp("first"))
    assert given_packages(clean) == before, "torch, triton or numpy was changed"
    return clean


def test_all_setup_cells_are_the_same_but_for_the_chapter() -> None:
    cells = {re.sub(r'begin\("\w+"\)', "begin(…)", setup_cell(notebook).source) for notebook in NOTEBOOKS}
    assert len(cells) == 1


def test_nothing_given_was_installed_again(installed: Path) -> None:
    listed = subprocess.run([installed, "-m", "pip", "list", "--local", "--format=json"], check=True,
                            capture_output=True, text=True)
    own = {entry["name"].lower() for entry in json.loads(listed.stdout)}
    assert "efflab" in own
    assert not own & set(GIVEN)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_setup_cell_runs_and_its_chapter_is_whole(
        installed: Path, surroundings: dict[str, str], notebook: Path, tmp_path: Path) -> None:
    slug = course.chapter(notebook.stem).slug
    look = nbformat.v4.new_code_cell(
        "from efflab import course\n"
        f"import importlib\nimportlib.import_module('efflab.chapters.{slug}.figures')\n"
        f"print(course.root(), [course.solution_of(e).__name__ for e in course.exercises('{slug}')])")
    output = run_cells(installed, surroundings, [setup_cell(notebook), look], tmp_path)
    assert "None ['" in output, "efflab was installed, not found in this checkout"
    assert ("sm_" in output) or ("no GPU" in output)
