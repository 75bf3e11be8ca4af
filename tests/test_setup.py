"""./run: finding a Python, making .venv, and what it says when something is missing.

The set-ups here are real ones (venv, pip) of a toy checkout, offline: its torch, triton, numpy and jupyterlab are
wheels of one line each.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest

from efflab.environment import advice, command, stamp, steps

ROOT = Path(__file__).resolve().parents[1]
PINS = {"torch": "2.13.0", "triton": "3.7.1", "numpy": "2.4.6", "jupyterlab": "1.0"}
TORCH = """
import types
__version__ = "{version}"
cuda = types.SimpleNamespace(is_available=lambda: {gpu})
"""
# A build backend of the toy project: pip needs no network for it.
BACKEND = '''
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "efflab-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("efflab.pth", str(pathlib.Path.cwd()))
        for file in pathlib.Path("info").iterdir():
            wheel.writestr("efflab-0.1.0.dist-info/" + file.name, file.read_text())
    return name
'''
WHEEL = "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def metadata(name: str, version: str, *lines: str) -> dict[str, str]:
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""])
    return {"METADATA": text, "WHEEL": WHEEL, "RECORD": ""}


def wheel(folder: Path, name: str, version: str, source: str) -> Path:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", source)
        for file, text in metadata(name, version).items():
            archive.writestr(f"{name}-{version}.dist-info/{file}", text)
    return path


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name, version in PINS.items():
        source = TORCH.format(version=version, gpu=False) if name == "torch" else f"__version__ = {version!r}\n"
        wheel(folder, name, version, source)
    return folder


@pytest.fixture(scope="session")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without torch, whatever this machine's own has."""
    return bare_python(tmp_path_factory.mktemp("plain"))


def bare_python(folder: Path) -> Path:
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python3"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A toy checkout, in a folder with a space in its name."""
    top = tmp_path / "my course"
    shutil.copytree(ROOT / "efflab" / "environment", top / "efflab" / "environment",
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "run", top / "run")
    (top / "efflab" / "__init__.py").write_text("")
    (top / "efflab" / "cli.py").write_text("import sys\n\ndef main():\n    print('efflab', sys.argv[1:])\n")
    (top / "backend.py").write_text(BACKEND)
    (top / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "efflab"\nversion = "0.1.0"\n\n[tool.x]\n')
    (top / "info").mkdir()
    extras = [f"Provides-Extra: {extra}" for extra in ("lab", "author", "test")]
    info = metadata("efflab", "0.1.0", *extras, "Requires-Dist: numpy", "Requires-Dist: jupyterlab")
    for file, text in (info | {"entry_points.txt": "[console_scripts]\nefflab = efflab.cli:main\n"}).items():
        (top / "info" / file).write_text(text)
    (top / "versions.txt").write_text("".join(f"{name}=={version}\n" for name, version in PINS.items()))
    return top


class Door:
    """Runs ./run of a toy checkout with a given Python."""

    def __init__(self, python: Path, wheels: Path) -> None:
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("PIP_", "EFFLAB_", "VIRTUAL_ENV"))}
        self.environment |= {
            "PATH": f"{python.parent}:/usr/bin:/bin", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(wheels), "PIP_NO_CACHE_DIR": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def __call__(self, checkout: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([checkout / "run", *words], capture_output=True, text=True, timeout=300,
                              env=self.environment | variables)

    def start(self, checkout: Path, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen([checkout / "run", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment, start_new_session=True)


@pytest.fixture
def door(plain_python: Path, wheels: Path) -> Door:
    return Door(plain_python, wheels)


def read(checkout: Path) -> dict[str, object]:
    return json.loads((checkout / ".venv" / "efflab-setup.json").read_text())


# Real set-ups


def test_setup_then_words_then_setup_again(door: Door, checkout: Path) -> None:
    first = door(checkout, "setup")
    assert first.returncode == 0, first.stderr
    assert re.findall(r"^\[./.\]", first.stderr, re.M) == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert read(checkout)["state"] == "ready"
    assert read(checkout)["torch"] == PINS["torch"]
    seconds = []
    for _ in range(3):  # the best of three: other tests may be running beside this one
        started = time.monotonic()
        second = door(checkout, "setup")
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 1.0
    assert second.returncode == 0
    assert second.stdout.startswith("The environment is ready")
    assert second.stderr == ""
    words = door(checkout, "lab", "--", "--no-browser", "--port", "8899")
    assert words.stdout == "efflab ['lab', '--', '--no-browser', '--port', '8899']\n"
    assert words.stderr == ""
    (checkout / "versions.txt").write_text((checkout / "versions.txt").read_text() + "# a change\n")
    (checkout / ".venv" / "kept").touch()
    update = door(checkout, "grade", "a b.py")
    assert update.stdout == "efflab ['grade', 'a b.py']\n"
    assert "[1/4] using" in update.stderr
    assert (checkout / ".venv" / "kept").exists()


def test_an_interrupted_setup_is_made_again(door: Door, checkout: Path) -> None:
    process = door.start(checkout, "setup")
    file = checkout / ".venv" / "efflab-setup.json"
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert read(checkout)["state"] == "unfinished"
    again = door(checkout, "setup")
    assert again.returncode == 0, again.stderr
    assert "Making .venv again: the last set-up did not finish." in again.stderr
    assert read(checkout)["state"] == "ready"


def test_a_moved_checkout_is_set_up_again(door: Door, checkout: Path, tmp_path: Path) -> None:
    assert door(checkout, "setup").returncode == 0
    moved = tmp_path / "elsewhere"
    checkout.rename(moved)
    result = door(moved, "doctor")
    assert result.stdout == "efflab ['doctor']\n", result.stderr
    assert f"moved or copied from {checkout}" in result.stderr
    assert read(moved)["checkout"] == str(moved)


def test_two_at_once_wait_for_each_other(door: Door, checkout: Path) -> None:
    both = [door.start(checkout, "setup") for _ in range(2)]
    outputs = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted("[4/4]" in output for output in outputs) == [False, True]
    assert any("Another set-up of this folder is running" in output for output in outputs)


def test_a_torch_that_sees_a_gpu_is_kept(wheels: Path, checkout: Path, tmp_path: Path) -> None:
    """As on a cloud image, where torch lies in a virtual environment of its own."""
    python = bare_python(tmp_path / "image")
    (packages,) = (tmp_path / "image" / "lib").glob("python3.*/site-packages")
    for name, version in {"torch": "2.9.1+cu128", "triton": "3.5.1", "numpy": "2.1.0"}.items():
        source = TORCH.format(version=version, gpu=True) if name == "torch" else f"__version__ = {version!r}"
        with zipfile.ZipFile(wheel(tmp_path, name, version, source)) as archive:
            archive.extractall(packages)
    result = Door(python, wheels)(checkout, "setup")
    assert result.returncode == 0, result.stderr
    assert "on its torch 2.9.1+cu128, which sees a GPU" in result.stderr
    assert "stay as they are" in result.stderr
    (own,) = (checkout / ".venv" / "lib").glob("python3.*/site-packages")
    assert not [path.name for path in own.iterdir() if path.name.startswith(("torch", "triton", "numpy"))]
    assert (own / "jupyterlab").is_dir()
    assert {name: read(checkout)[name] for name in command.GIVEN} == {
        "torch": "2.9.1+cu128", "triton": "3.5.1", "numpy": "2.1.0"}


def test_efflab_torch_chooses_the_torch(door: Door, checkout: Path, wheels: Path, tmp_path: Path) -> None:
    wheel(tmp_path, "torch", "2.14.0+cpu", TORCH.format(version="2.14.0+cpu", gpu=False))
    asked = f"--find-links '{tmp_path}' torch==2.14.0+cpu"
    result = door(checkout, "setup", EFFLAB_TORCH=asked)
    assert result.returncode == 0, result.stderr
    assert (read(checkout)["torch"], read(checkout)["triton"]) == ("2.14.0+cpu", PINS["triton"])
    assert door(checkout, "setup").stdout.startswith("The environment is ready"), "a later set-up keeps the choice"


def test_no_network_says_what_failed_and_what_to_do(door: Door, checkout: Path) -> None:
    nowhere = {"PIP_NO_INDEX": "0", "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1",
               "PIP_FIND_LINKS": ""}
    result = door(checkout, "setup", **nowhere)
    assert result.returncode == 2
    assert "This step failed: torch and triton" in result.stderr
    assert "The package registry could not be reached" in result.stderr
    assert str(checkout / ".setup" / "log") in result.stderr
    assert read(checkout)["state"] == "unfinished"


def test_a_venv_of_the_learners_own_is_used_and_never_deleted(door: Door, checkout: Path) -> None:
    venv.create(checkout / ".venv", with_pip=True, symlinks=True)
    (checkout / ".venv" / "mine").touch()
    result = door(checkout, "setup")
    assert result.returncode == 0, result.stderr
    assert (checkout / ".venv" / "mine").exists()
    (checkout / ".venv" / "efflab-setup.json").write_text(json.dumps(read(checkout) | {"version": "3.1"}))
    broken = door(checkout, "setup")
    assert broken.returncode == 2
    assert "Move it away" in broken.stderr
    assert (checkout / ".venv" / "mine").exists()


def test_a_folder_that_cannot_be_written_is_explained(door: Door, checkout: Path) -> None:
    (checkout / ".setup").write_text("a file where the folder should be")
    result = door(checkout, "setup")
    assert result.returncode == 2
    assert "This folder must be writable" in result.stderr


# Finding a Python


def fake_path(folder: Path, **answers: str) -> dict[str, str]:
    """PATH with nothing but what ./run itself calls and Pythons that give these answers to the probe."""
    folder.mkdir()
    for tool in ("dirname", "cat"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    for name, answer in answers.items():
        script = folder / name.replace("_", ".")
        script.write_text('#!/bin/sh\n'
                          f'case "$2" in -c) echo "{answer}" ;; *) echo "{script.name} $4" >&2; exit 3 ;; esac\n')
        script.chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.parametrize(("answers", "says"), [
    ({}, "No python3 was found"),
    ({"python3": "old 3.8"}, "python3 is Python 3.8"),
    ({"python3": "novenv 3.11"}, "sudo apt install python3-venv"),
    ({"python3": "old 3.8", "python3_12": "ok 3.12"}, "python3.12 lab"),
    ({"python3": "novenv 3.11", "python3_10": "ok 3.10"}, "python3.10 lab"),
])
def test_the_python_that_is_chosen(checkout: Path, tmp_path: Path, answers: dict[str, str], says: str) -> None:
    result = subprocess.run(["/bin/sh", checkout / "run", "setup"], capture_output=True, text=True,
                            env=fake_path(tmp_path / "bin", **answers))
    assert result.returncode in (2, 3)
    assert says in result.stderr


def test_a_wrong_efflab_python_is_not_silently_replaced(checkout: Path, tmp_path: Path) -> None:
    environment = fake_path(tmp_path / "bin", python3="ok 3.12") | {"EFFLAB_PYTHON": "/no/such python"}
    result = subprocess.run(["/bin/sh", checkout / "run", "setup"], capture_output=True, text=True, env=environment)
    assert result.returncode == 2
    assert "EFFLAB_PYTHON=/no/such python cannot be used" in result.stderr


def test_the_probe_knows_this_python(checkout: Path, tmp_path: Path) -> None:
    environment = fake_path(tmp_path / "bin")
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    (checkout / "efflab" / "environment" / "__main__.py").write_text("import sys\nprint(sys.argv[1:])\n")
    result = subprocess.run(["/bin/sh", checkout / "run", "setup", "test"], capture_output=True, text=True,
                            env=environment)
    assert result.stdout == "['make', 'test']\n", result.stderr


def test_help_needs_no_python(checkout: Path, tmp_path: Path) -> None:
    result = subprocess.run(["/bin/sh", checkout / "run"], capture_output=True, text=True,
                            env=fake_path(tmp_path / "bin"))
    assert result.returncode == 0
    assert "./run lab" in result.stdout


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_the_script_is_plain_sh(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, *(["sh"] if shell == "busybox" else []), "-n", ROOT / "run"], check=True)


# The decisions, one by one


@pytest.fixture
def places(tmp_path: Path) -> stamp.Places:
    (tmp_path / ".venv").mkdir()
    (tmp_path / "versions.txt").write_text("torch==1\n")
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n\n[tool.ruff]\nline-length = 120\n")
    places = stamp.Places(tmp_path)
    stamp.write_stamp(places, {"state": "ready", "level": "lab", "checkout": str(tmp_path), "version": "3.11",
                               "fingerprint": stamp.fingerprint(tmp_path)})
    return places


def test_ready_is_told_from_what_is_not(places: stamp.Places, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("EFFLAB_PYTHON", "EFFLAB_TORCH"):
        monkeypatch.delenv(name, raising=False)
    assert stamp.is_ready(places, "lab", "3.11")
    assert not stamp.is_ready(places, "test", "3.11"), "the tests need more"
    assert not stamp.is_ready(places, "lab", "3.12"), "the system's Python was replaced"
    assert not stamp.is_ready(places, "lab", None), "the Python is gone"
    project = places.checkout / "pyproject.toml"
    project.write_text(project.read_text().replace("120", "100"))
    assert stamp.is_ready(places, "lab", "3.11"), "a linter's setting changes no environment"
    monkeypatch.setenv("EFFLAB_TORCH", "torch==2.9")
    assert not stamp.is_ready(places, "lab", "3.11")
    monkeypatch.delenv("EFFLAB_TORCH")
    project.write_text(project.read_text().replace("'x'", "'x'\ndependencies = ['y']"))
    assert not stamp.is_ready(places, "lab", "3.11"), "a dependency was added"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "unfinished"}'])
def test_a_damaged_or_unfinished_stamp_is_not_ready(places: stamp.Places, text: str) -> None:
    places.stamp.write_text(text)
    assert not stamp.is_ready(places, "lab", "3.11")
    assert stamp.why_rebuild(places, stamp.read_stamp(places), "3.11") == "the last set-up did not finish"


@pytest.mark.parametrize(("torch", "gpu", "expected"), [
    ("2.7.0a0+79aa17489c.nv25.04", True, True), ("2.11.0+cu130", True, True), ("2.6.0", True, False),
    ("2.13.0", False, False), (None, False, False), ("3.0.0", True, True),
])
def test_which_torch_is_built_upon(torch: str | None, gpu: bool, expected: bool) -> None:
    assert command.usable({"torch": torch, "gpu": gpu}) is expected


def test_settings_that_cannot_be_read_are_explained() -> None:
    assert command.split_words("EFFLAB_TORCH", "'a b' c") == ["a b", "c"]
    with pytest.raises(steps.SetupFailed, match="EFFLAB_TORCH cannot be read"):
        command.split_words("EFFLAB_TORCH", "torch 'x")


def test_pins_give_way_to_what_is_kept() -> None:
    pins = 'torch==2.13.0\ntriton==3.7.1\nnumpy==2.4.6 ; python_version >= "3.11"\nclick==8\n'
    kept = command.constraints(pins, {"torch": "2.9.1+cu128", "triton": None, "numpy": "1.26.4"})
    assert [line for line in kept.splitlines() if not line.startswith("#")] == [
        "triton==3.7.1", "click==8", "torch==2.9.1+cu128", "numpy==1.26.4"]


@pytest.mark.parametrize(("output", "says"), [
    ("ERROR: [Errno 28] No space left on device", "GB free"),
    ("NewConnectionError: [Errno -3] Temporary failure in name resolution", "HTTPS_PROXY"),
    ("error: command '/usr/bin/gcc' failed with exit code 1", "build-essential"),
    ("ERROR: No matching distribution found for triton==3.7.1", "WSL 2"),
    ("ERROR: No matching distribution found for numpy==2.4.6", "EFFLAB_PYTHON"),
    ("PermissionError: [Errno 13] Permission denied", "chown"),
    ("exit status -9", "memory"),
    ("something never seen", "report it"),
])
def test_advice_fits_the_failure(output: str, says: str, tmp_path: Path) -> None:
    assert says in advice.advise(output, tmp_path)
