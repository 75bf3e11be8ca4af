"""Runs the x-ray's worker processes: at most two at a time, a time limit for each job, answers kept on disk.

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import efflab
from efflab.gpu import _xray_jobs

MAX_PROCESSES = 2
SECONDS_PER_JOB = 90
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
            wrap: Wrap | None = None, cached: bool = True) -> dict[str, dict[str, Any]]:
    """By each job's key: {"kernels": [...], "error": None or text}."""
    done = {job["key"]: known for job in jobs if cached and (known := _xray_jobs.load(job["key"])) is not None}
    left = [job for job in {j["key"]: j for j in jobs}.values() if job["key"] not in done]
    shares = [share for share in (left[i::MAX_PROCESSES] for i in range(MAX_PROCESSES)) if share]
    crew = Crew()
    with ThreadPoolExecutor(MAX_PROCESSES) as pool:
        try:
            for result in pool.map(lambda share: _work_through(crew, source, function, share, filename, wrap), shares):
                done |= result
        except BaseException:               # the notebook's interrupt button, above all
            crew.dismiss()
            raise
    return done


class Crew:
    """The worker processes of one call, so that an interrupt ends them all and starts no new one."""

    def __init__(self) -> None:
        self.dismissed = False
        self._lock = threading.Lock()
        self._running: list[subprocess.Popen[str]] = []

    def hire(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self.dismissed:
                raise InterruptedError("the x-ray was interrupted")
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
            self._running.append(process)
            return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """Kill the process, and what it started, if it still runs."""
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def dismiss(self) -> None:
        with self._lock:
            self.dismissed = True
            for process in self._running:
                self.end(process)


def _work_through(crew: Crew, source: str, function: str, jobs: list[dict[str, Any]], filename: str | None,
                  wrap: Wrap | None) -> dict[str, dict[str, Any]]:
    """Answer all jobs; after a crash or a timeout, name it in the job it hit and go on with the next one."""
    done: dict[str, dict[str, Any]] = {}
    while left := [job for job in jobs if job["key"] not in done]:
        fresh, failure = _one_process(crew, source, function, left, filename, wrap)
        for key, answer in fresh.items():
            _xray_jobs.store(key, answer)
        done |= fresh
        if failure is not None and (hit := next((job for job in left if job["key"] not in done), None)):
            done[hit["key"]] = {"kernels": [], "error": failure}
    return done


def _one_process(crew: Crew, source: str, function: str, jobs: list[dict[str, Any]], filename: str | None,
                 wrap: Wrap | None) -> tuple[dict[str, dict[str, Any]], str | None]:
    with tempfile.TemporaryDirectory(prefix="efflab_xray_") as name:
        folder = Path(name)
        log, out = folder / "log", folder / "out"
        subject = folder / "subject.py"
        subject.write_text(source, encoding="utf-8")
        request = {"source": source, "filename": filename or str(subject), "function": function, "jobs": jobs,
                   "tools": tools(), "path": [p for p in sys.path if p], "log": str(log), "out": str(out)}
        command = [sys.executable, "-m", "efflab.gpu._xray_worker"]
        failure = _run(crew, wrap(command, folder) if wrap else command, json.dumps(request), folder)
        told = _told(out, {job["key"] for job in jobs})
        if len(told) < len(jobs) and failure is None:
            failure = "the compiling process ended early"
        if failure and (tail := _text(log).strip().splitlines()):
            failure += f": {tail[-1][:300]}"
        return told, failure


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


def _run(crew: Crew, command: list[str], request: str, folder: Path) -> str | None:
    """Run the worker; None when it ended well, else what happened to it. Each job has its own time limit."""
    here = str(Path(efflab.__file__).resolve().parents[1])
    paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRITON_")}
    environment |= {"PYTHONPATH": paths, "CUDA_VISIBLE_DEVICES": ""}
    process = crew.hire(command, environment)
    try:
        errors = _until_stuck(process, request, folder / "out")
    finally:
        crew.end(process)
    if errors is None:
        return (f"compiling took longer than {SECONDS_PER_JOB} s and was stopped: large tiles that the target "
                "multiplies without tensor cores, or a loop that never ends, do that")
    if process.returncode < 0:
        return f"the compiler crashed ({signal.Signals(-process.returncode).name})"
    if process.returncode > 0:
        lines = errors.strip().splitlines()
        return f"the compiling process failed ({lines[-1][:300] if lines else process.returncode})"
    return None


def _until_stuck(process: subprocess.Popen[str], request: str | None, out: Path) -> str | None:
    """The worker's standard error once it has ended; None when one job took longer than its limit."""
    finished_jobs = -1
    while True:
        try:
            return process.communicate(request, timeout=SECONDS_PER_JOB)[1]
        except subprocess.TimeoutExpired:
            request = None                  # it has been sent
            so_far = len(_text(out).splitlines())
            if so_far == finished_jobs or so_far == 0:
                return None
            finished_jobs = so_far
