"""ready and make: the two commands behind ./run setup."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .stamp import Places, fingerprint, is_ready, read_stamp, settings, why_rebuild, write_stamp
from .steps import SetupFailed, Steps, pip_environment, show

EXTRAS = {"lab": "lab,author", "test": "test"}  # the second holds the first
OLDEST_TORCH = (2, 7)  # what the course's code needs of a torch that it did not choose
GIVEN = ("torch", "triton", "numpy")  # left as they are when torch is there and sees a GPU

# What a Python has: versions of GIVEN, where torch lies, whether it sees a GPU, and where its packages are.
_PROBE = """
import importlib, importlib.util, json, sys
found = {"packages": [p for p in sys.path if p.endswith("-packages")], "venv": sys.prefix != sys.base_prefix}
for name in ("torch", "triton", "numpy"):
    try:
        found[name] = importlib.import_module(name).__version__ if importlib.util.find_spec(name) else None
    except Exception as problem:
        found[name] = None
torch = sys.modules.get("torch")
found["gpu"] = bool(found["torch"]) and bool(torch.cuda.is_available())
found["torch_file"] = getattr(torch, "__file__", None)
print(json.dumps(found))
"""


def main(words: list[str], checkout: Path) -> int:
    """Exit status: ready gives 0 or 1; make gives 0, 2 when a step failed, 130 when interrupted."""
    places = Places(checkout)
    action, level = words
    if action == "ready":
        return 0 if is_ready(places, level, this_python()) else 1
    try:
        make(places, level)
    except SetupFailed as problem:
        show(f"\n{problem}\n")
        return 2
    except OSError as problem:
        show(f"\nThe set-up could not go on: {problem}\n"
             f"This folder must be writable and its disk not full: {checkout}\n")
        return 2
    except KeyboardInterrupt:
        show("\nStopped. Run the same command to start again; finished downloads are kept.\n")
        return 130
    return 0


def make(places: Places, level: str) -> None:
    """Bring .venv to what versions.txt and pyproject.toml ask for. Raises SetupFailed, OSError."""
    places.log.parent.mkdir(exist_ok=True)
    with only_one(places.lock) as lock:
        version = python_version(places.python)
        if is_ready(places, level, version):  # another set-up did it while this one waited
            return
        places.log.write_text("", encoding="utf-8")
        stamp = read_stamp(places)
        if stamp and stamp.get("state") == "ready" and stamp.get("level") == "test":
            level = "test"  # an update keeps what is there
        steps = Steps(4, places.checkout, places.log, keep_open=[lock])
        stamp = make_venv(places, steps, stamp, version)
        install(places, steps, stamp, level)
        show(f"Ready: {places.venv}\n")


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[int]:
    """Hold the lock file. The system frees it when this process and the commands it started are gone."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            show("Another set-up of this folder is running; waiting for it to end.\n")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def this_python() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def python_version(python: Path) -> str | None:
    """"3.11" for a Python that runs, None for one that does not."""
    try:
        asked = subprocess.run([python, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
                               capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def probe(python: str | Path) -> dict[str, Any]:
    """What this Python has (see _PROBE)."""
    asked = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, env=pip_environment())
    lines = asked.stdout.strip().splitlines()
    if asked.returncode or not lines:
        # For example a torch that crashes on import: not one to build on.
        return {"gpu": False, "venv": False, "packages": [], **dict.fromkeys(GIVEN)}
    return json.loads(lines[-1])


def usable(found: dict[str, Any]) -> bool:
    """Whether this torch is recent enough and sees a GPU, so that the course is built on it."""
    numbers = (found["torch"] or "0.0").split(".")
    return found["gpu"] and (int(numbers[0]), int("".join(c for c in numbers[1] if c.isdigit()) or 0)) >= OLDEST_TORCH


def make_venv(places: Places, steps: Steps, stamp: dict[str, Any] | None, version: str | None) -> dict[str, Any]:
    """Step 1: a .venv that runs, kept where it can be. Returns its unfinished stamp."""
    reason = why_rebuild(places, stamp, version)
    adopted = stamp.get("adopted", False) if stamp else places.venv.exists()
    keep = version is not None and reason is None and (stamp is not None or adopted)
    if adopted and not keep:
        raise SetupFailed(f"{places.venv} was not made by ./run, and it cannot be used: "
                          f"{reason or 'its Python does not run'}.\nMove it away, then run the same command again.")
    # ./run may itself run on the Python in .venv, which is about to be made again.
    base = getattr(sys, "_base_executable", sys.executable) if Path(sys.prefix) == places.venv else sys.executable
    ours = keep and stamp is not None and not stamp.get("on")  # then torch follows versions.txt
    found: dict[str, Any] = {"gpu": False} if ours else probe(places.python if keep else base)
    on = found if found["gpu"] and usable(found) else None
    fresh: dict[str, Any] = {"checkout": str(places.checkout), "version": version, "adopted": adopted, "on": on}
    fresh |= {name: stamp[name] for name in ("EFFLAB_PYTHON", "EFFLAB_TORCH") if stamp and name in stamp} | settings()
    if keep:
        write_stamp(places, fresh | {"state": "unfinished"})
        steps.run(f"using {places.venv} (Python {version})", [places.python, "-m", "pip", "--version"])
        return fresh
    if reason:
        show(f"Making .venv again: {reason}.\n")
    create(places, steps, base, fresh)
    return fresh | {"version": this_python()}


def create(places: Places, steps: Steps, base: str, stamp: dict[str, Any]) -> None:
    """A new .venv from `base`, in place of what was there; on the torch that the stamp names, if it names one."""
    if places.venv.exists():
        shutil.rmtree(places.venv)
    places.venv.mkdir()
    write_stamp(places, stamp | {"state": "unfinished"})
    on = stamp["on"]
    described = f", on its torch {on['torch']}, which sees a GPU" if on else ""
    steps.run(f"a virtual environment in .venv from Python {this_python()} ({base}){described}",
              [base, "-m", "venv", *(["--system-site-packages"] if on else []), places.venv])
    if on and on["venv"]:
        # A virtual environment made from another one sees the packages of the system, not those of that other one.
        lines = "".join(f"import site; site.addsitedir({path!r})\n" for path in on["packages"])
        packages = places.venv / "lib" / f"python{this_python()}" / "site-packages"
        (packages / "efflab-base.pth").write_text(lines, encoding="utf-8")


def install(places: Places, steps: Steps, stamp: dict[str, Any], level: str) -> None:
    """Steps 2 to 4: torch and triton, everything else, and a look whether it works. Ends with the stamp."""
    pip: list[str | Path] = [places.python, "-m", "pip", "install", "--progress-bar", "off"]
    pins = places.checkout / "versions.txt"
    keep = install_torch(places, steps, stamp, [*pip, "--constraint", pins])
    places.constraints.write_text(constraints(pins.read_text(encoding="utf-8"), keep), encoding="utf-8")
    titles = {"lab": "JupyterLab, efflab and the rest", "test": "JupyterLab, efflab, pytest and the rest"}
    steps.run(titles[level], [*pip, "--constraint", places.constraints, "--editable", f".[{EXTRAS[level]}]"])
    steps.run("a first look: import torch, triton, efflab",
              [places.python, "-c", "import efflab, torch, triton, numpy, jupyterlab"])
    have = probe(places.python)
    if any(keep.get(name) and have[name] != keep[name] for name in GIVEN):
        raise SetupFailed(f"torch, triton or numpy changed during the set-up. Please report this.\n{keep}\n{have}")
    write_stamp(places, stamp | {"state": "ready", "level": level, "fingerprint": fingerprint(places.checkout),
                                 **{name: have[name] for name in GIVEN}})
    if not have["gpu"] and shutil.which("nvidia-smi"):
        show(f"Note: this machine seems to have an NVIDIA GPU, but torch {have['torch']} does not see it: its driver\n"
             "may be too old for that torch. Name a Python whose torch sees it (EFFLAB_PYTHON=… ./run setup), or a\n"
             "torch that fits the driver (EFFLAB_TORCH=… ./run setup).\n")


def install_torch(places: Places, steps: Steps, stamp: dict[str, Any], pip: list[str | Path]) -> dict[str, Any]:
    """Step 2. Returns the versions that the rest must leave as they are; empty when versions.txt decided them."""
    if stamp["on"]:
        keep = stamp["on"]
        steps.run(f"torch {keep['torch']} and triton {keep['triton']} stay as they are",
                  [places.python, "-c", "import torch, triton"])
        return keep
    asked = split_words("EFFLAB_TORCH", stamp.get("EFFLAB_TORCH", ""))
    if not asked:
        steps.run("torch and triton (large the first time: several GB with CUDA)", [*pip, "torch", "triton", "numpy"])
        return {}
    unpinned = [word for word in pip if word != "--constraint" and Path(word).name != "versions.txt"]
    steps.run(f"torch by EFFLAB_TORCH ({shlex.join(asked)})", [*unpinned, *asked])
    if probe(places.python)["triton"] is None:
        steps.total += 1
        steps.run("triton, which this torch did not bring", [*pip, "triton"])
    return probe(places.python)


def split_words(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as problem:
        raise SetupFailed(f"{name} cannot be read ({problem}): {text}\nGive it what follows \"pip install\".") from None


def constraints(pins: str, keep: dict[str, Any]) -> str:
    """versions.txt with the lines of the packages in `keep` replaced by the versions that are there."""
    kept = [name for name in GIVEN if keep.get(name)]
    if not kept:
        return pins
    lines = [line for line in pins.splitlines() if line.split("==")[0].strip() not in kept]
    return "\n".join([*lines, "# of the Python that was built on", *(f"{name}=={keep[name]}" for name in kept)]) + "\n"
