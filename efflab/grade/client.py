"""The judge's handle on the processes behind the walls: a warm one for a chapter, a forked one for each exercise."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from efflab.checking.observe import Observation, Raised
from efflab.grade import limited, processes, protocol
from efflab.grade.isolate import FILE_BYTES, PROCESSES, SCRATCH, UNTOUCHED, Walls, clean_environment, command
from efflab.grade.protocol import Ended, Invalid, Receiver, TooLate

START_SECONDS = 180.0               # to import torch and triton, on a machine that is busy
_POLL = 0.2                         # how often memory and processes are looked at while an answer is awaited


class WorkerFailed(RuntimeError):
    """The grader's own process did not start or does not answer: nothing that a submission should pay for."""


class Stopped(Exception):
    """The exercise's process is gone or was stopped; `raised` tells the learner why."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.raised = Raised(kind, message, "")


class Warm:
    """One zygote. hidden: chapters whose solutions it must not see. folder: where its scratch folder is made."""

    def __init__(self, walls: Walls, hidden: Sequence[str], *, show: bool = False,
                 folder: Path | None = None) -> None:
        self.walls = walls
        self.hidden = tuple(hidden)
        self.scratch = Path(tempfile.mkdtemp(prefix="efflab-grade-", dir=folder))
        self._control, theirs = socket.socketpair()
        home = SCRATCH if walls.bwrap else str(self.scratch)
        self._settings = {
            "device": "cuda" if walls.gpu else "cpu", "show": show,
            "scratch": [home, "/dev/shm"] if walls.bwrap else [home],
            "limits": {"cpu_seconds": int(walls.seconds * 2 + 30), "file_bytes": FILE_BYTES,
                       "processes": limited.running() + PROCESSES,
                       "address_space": None if walls.gpu else walls.memory + UNTOUCHED}}
        inner = [sys.executable, "-m", "efflab.grade.zygote", str(theirs.fileno()), json.dumps(self._settings)]
        self._log = (self.scratch.parent / (self.scratch.name + ".log")).open("w+b")
        environment = clean_environment(gpu=walls.gpu)
        with theirs:
            self._process = subprocess.Popen(
                command(walls, inner, hidden=hidden, scratch=self.scratch, environment=environment),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None if show else self._log,
                pass_fds=[theirs.fileno()], start_new_session=True)
        self._keep: frozenset[int] | None = None

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def ready(self) -> None:
        """Wait until the imports are done. Raises WorkerFailed."""
        if self._keep is None:
            if self._line(START_SECONDS) != b"ready":
                raise WorkerFailed(f"the grader's worker did not start: {self._last_words()}")
            self._keep = frozenset(processes.descendants(self._process.pid))
            self.clean()

    def fork(self) -> socket.socket:
        """A channel to a fresh child."""
        self.ready()
        mine, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"F"], [theirs.fileno()])
            except OSError as error:
                raise WorkerFailed("the grader's worker is gone") from error
        return mine

    def clean(self) -> int | None:
        """End everything a submission started, empty the scratch folders; the child's exit code, -N for signal N.

        Raises WorkerFailed: the worker is then no longer fit for use.
        """
        assert self._keep is not None
        if not processes.kill_below(self._process.pid, self._keep):
            raise WorkerFailed("a submission's processes could not be ended")
        try:
            self._control.sendall(b"C")
            return json.loads(self._line(30.0))
        except (OSError, ValueError) as error:
            raise WorkerFailed("the grader's worker does not answer") from error

    def children(self) -> set[int]:
        """The processes that run for the submission now."""
        return processes.descendants(self._process.pid) - (self._keep or frozenset())

    def close(self) -> None:
        self._control.close()
        processes.kill_below(self._process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._log.close()
        with contextlib.suppress(OSError):
            os.unlink(self._log.name)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _line(self, seconds: float) -> bytes:
        """One line from the zygote, b"" when it ended or is too late."""
        self._control.settimeout(seconds)
        line = b""
        with contextlib.suppress(OSError):
            while not line.endswith(b"\n") and len(line) < 200:
                piece = self._control.recv(1)
                if not piece:
                    return b""
                line += piece
            return line[:-1]
        return b""

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read()[-4000:].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.poll()}"


class Attempt:
    """One exercise of one submission in a child of its own. What goes wrong there becomes an Observation."""

    def __init__(self, warm: Warm, device: torch.device) -> None:
        self._warm = warm
        self._device = device
        self._left = warm.walls.seconds
        self._channel: socket.socket | None = warm.fork()
        self._receiver = Receiver(self._channel)

    def load(self, units: list[Any], function: str) -> dict[str, Any]:
        """Run the submission's definitions: {"defined": bool, "failures": [...]}. Raises Stopped."""
        return self._ask({"load": units, "function": function, "hidden": list(self._warm.hidden)})

    def observe(self, inputs: Mapping[str, Any], drive: str | None, forbidden: Sequence[str]) -> Observation:
        """What the function did with these inputs."""
        try:
            reply = self._ask({"inputs": dict(inputs), "drive": drive, "forbidden": list(forbidden)})
            try:
                return protocol.observation(reply)
            except Invalid as error:
                raise Stopped("InvalidAnswer", str(error)) from error
        except Stopped as stopped:
            return Observation(error=stopped.raised)

    def close(self) -> int | None:
        """End the child and all it started. Raises WorkerFailed."""
        if self._channel is None:
            return None
        self._channel.close()
        self._channel = None
        return self._warm.clean()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._channel is None:
            raise Stopped("ProcessEnded", "its process had ended before")
        start = time.monotonic()
        try:
            self._channel.settimeout(max(self._left, 0.01))
            protocol.send(self._channel, request)
            return protocol.answer(self._await(start), self._device)
        except TooLate:
            self.close()
            raise Stopped("Timeout", f"stopped after {self._warm.walls.seconds:g} s") from None
        except Ended:
            raise Stopped("ProcessEnded", _end(self.close())) from None
        except Invalid as error:
            self.close()
            raise Stopped("InvalidAnswer", str(error)) from error
        finally:
            self._left -= time.monotonic() - start

    def _await(self, start: float) -> bytes:
        """The answer's bytes; in between, memory and processes are looked at."""
        while True:
            left = self._left - (time.monotonic() - start)
            if left <= 0:
                raise TooLate
            frame = self._receiver.wait(min(_POLL, left))
            if frame is not None:
                return frame
            self._check_load()

    def _check_load(self) -> None:
        pids = self._warm.children()
        most = self._warm.walls.memory
        if len(pids) > PROCESSES:
            self.close()
            raise Stopped("ProcessLimit", f"stopped: it started more than {PROCESSES} processes")
        if processes.held_bytes(pids) > most:
            self.close()
            raise Stopped("MemoryLimit", f"stopped: it held more than {most / 2**30:g} GB of memory")


def _end(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None:
        return "its process closed the connection to the grader"
    if code < 0:
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            why = {"SIGSEGV": ": it touched memory that is not its own, or recursed too deeply",
                   "SIGXCPU": ": it used all the processor time it is given", "SIGKILL": ": perhaps memory ran out",
                   "SIGXFSZ": ": it wrote a file that is too large"}.get(name, "")
            return f"its process was ended by {name}{why}"
    return f"its process ended with exit status {code} before it returned"
