"""Runs the x-ray's worker, which answers jobs two at a time, a time limit for each; answers are kept on disk.

A job is one (target, inputs) for one function of one source text.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import efflab
from efflab.gpu import _xray_jobs

AT_ONCE = 2                 # jobs
SECONDS_PER_JOB = 90
SECONDS_TO_START = 120      # importing torch takes two of them on an idle machine
MAX_ANSWER_BYTES = 4 << 20
Wrap = Callable[[list[str], Path], list[str]]       # (command, folder it writes to) -> command, for sandboxes


class XRayUnavailable(RuntimeError):
    """Kernels cannot be compiled here; the message says what is missing."""


def tools() -> dict[str, str]:
    """Paths of cuobjdump and nvdisasm: in Triton's wheel, or on PATH. Raises XRayUnavailable."""
    import importlib.util
    import shutil

    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        raise XRayUnavailable("the x-ray needs Triton, which is not installed here")
    folder = Path(spec.submodule_search_locations[0]) / "backends" / "nvidia" / "bin"
    found = {}
    for tool in ("cuobjdump", "nvdisasm"):
        path = folder / tool if (folder / tool).is_file() else shutil.which(tool)
        if path is None:
            raise XRayUnavailable(f"the x-ray needs {tool}, which is neither in Triton's wheel nor on PATH")
        found[tool] = str(path)
    return found


def answers(source: str, function: str, jobs: list[dict[str, Any]], *, filename: str | None = None,
            wrap: Wrap | None = None, cached: bool = True, crew: Crew | None = None) -> dict[str, dict[str, Any]]:
    """By each job's key: {"kernels": [...], "error": None or text}. crew: dismiss it to end this call early.

    A worker that ends before all jobs are answered is followed by another as long as each answers something.
    """
    crew = crew or Crew()
    done = {job["key"]: known for job in jobs if cached and (known := _xray_jobs.load(job["key"])) is not None}
    while left := [job for job in {j["key"]: j for j in jobs}.values() if job["key"] not in done]:
        fresh, failure = _one_process(crew, source, function, _longest_first(left), filename, wrap)
        for key, answer in fresh.items():
            _xray_jobs.store(key, answer)
        done |= fresh or {job["key"]: {"kernels": [], "error": failure} for job in left}
    return done


def _longest_first(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newer the target, the more passes its compiler makes."""
    return sorted(jobs, key=lambda job: job["arch"], reverse=True)


class Crew:
    """One worker process after another, until it is dismissed: by who waits for them, or by another thread."""

    def __init__(self) -> None:
        self._dismissed = False
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None

    def hire(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            self.ask()
            self._running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
            return self._running

    def ask(self) -> None:
        """Raise InterruptedError if it is dismissed."""
        if self._dismissed:
            raise InterruptedError("the x-ray was called off")

    def end(self) -> None:
        """Kill the worker if it still runs, and what it started: a compiler may outlive the child that waits for it."""
        with self._lock:
            process, self._running = self._running, None
            if process is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def dismiss(self) -> None:
        """End the worker; no other is started."""
        self._dismissed = True
        self.end()


def _one_process(crew: Crew, source: str, function: str, jobs: list[dict[str, Any]], filename: str | None,
                 wrap: Wrap | None) -> tuple[dict[str, dict[str, Any]], str | None]:
    with tempfile.TemporaryDirectory(prefix="efflab_xray_") as name:
        folder = Path(name)
        out = folder / "out"
        subject = folder / "subject.py"
        subject.write_text(source, encoding="utf-8")
        request = {"source": source, "filename": filename or str(subject), "function": function, "jobs": jobs,
                   "tools": tools(), "path": [p for p in sys.path if p], "log": str(folder / "log"), "out": str(out),
                   "seconds": SECONDS_PER_JOB, "at_once": AT_ONCE}
        command = [sys.executable, "-m", "efflab.gpu._xray_worker"]
        failure = _run(crew, wrap(command, folder) if wrap else command, json.dumps(request), len(jobs))
        return _told(out, {job["key"] for job in jobs}), failure


def _text(path: Path) -> str:
    """What the worker's file says; nothing unless it is a plain file of sensible size: learners' code can reach it."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_ANSWER_BYTES:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _told(out: Path, keys: set[str]) -> dict[str, dict[str, Any]]:
    """The worker's answers to these jobs, each field of the kind it should be; others are dropped."""
    told: dict[str, dict[str, Any]] = {}
    for line in _text(out).splitlines():
        try:
            entry = json.loads(line)
            if entry["key"] in keys:
                told[entry["key"]] = {"kernels": list(map(_kernel, entry["kernels"])), "error": _words(entry["error"])}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return told


def _kernel(entry: Mapping[str, Any]) -> dict[str, Any]:
    kernel: dict[str, Any] = {"kernel": str(entry["kernel"])[:200]}
    kernel |= {name: int(entry[name]) for name in ("shared_bytes", "registers", "spills", "num_warps") if name in entry}
    kernel |= {name: entry[name] is True for name in ("mma", "wgmma", "tma") if name in entry}
    kernel |= {name: _words(entry.get(name)) for name in ("config", "error")}
    grid = entry.get("grid")
    return kernel | {"grid": None if grid is None else [int(n) for n in grid][:3]}


def _words(text: Any) -> str | None:
    return None if text is None else str(text)[:1000]


def _run(crew: Crew, command: list[str], request: str, jobs: int) -> str:
    """Run the worker; what became of it, in words. It keeps the jobs' time limits; this one is in case it does not."""
    here = str(Path(efflab.__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    environment |= {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
    seconds = SECONDS_TO_START + jobs * SECONDS_PER_JOB
    process = crew.hire(command, environment)
    try:
        errors = process.communicate(request, timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        return f"the compiling process took longer than {seconds} s and was stopped"
    finally:
        crew.end()
    crew.ask()                              # what was killed has no answer to give
    lines = errors.strip().splitlines()
    if process.returncode > 0:
        return f"the compiling process failed ({lines[-1][:300] if lines else process.returncode})"
    crashed = f" ({signal.Signals(-process.returncode).name})" if process.returncode else ""
    return f"the compiling process ended early{crashed}"
