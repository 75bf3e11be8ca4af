"""The x-ray worker's children: one forked for each job, a few at a time, each with a time limit.

A fork costs milliseconds where a new process pays for the import of torch. One that crashes or takes too long loses
its own job alone.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any], dict[str, Any]], None]


def tell(request: dict[str, Any], job: dict[str, Any], told: dict[str, Any]) -> None:
    """Add one line to the request's "out" file, at once: two children write to it."""
    line = (json.dumps({"key": job["key"], **told}) + "\n").encode()
    file = os.open(request["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, line)
    os.close(file)


class Child:
    """A job's process, with its time limit."""

    def __init__(self, job: dict[str, Any], request: dict[str, Any], answer: Answer) -> None:
        self.job, self.request = job, request | {"log": f"{request['log']}-{job['key'][:16]}"}
        self.process = multiprocessing.get_context("fork").Process(target=answer, args=(job, self.request))
        self.process.start()
        self.deadline = time.monotonic() + request["seconds"]

    def settled(self) -> bool:
        """Whether it is over; one that was stopped or crashed is told about."""
        late = time.monotonic() >= self.deadline and self.process.is_alive()
        if late:
            self.process.kill()
            self.process.join()
        if self.process.is_alive():
            return False
        failure = self._failure(late)
        if failure is not None:
            lines = Path(self.request["log"]).read_text(errors="replace").strip().splitlines()
            tell(self.request, self.job,
                  {"kernels": [], "error": failure + (f": {lines[-1][:300]}" if lines else "")})
        return True

    def _failure(self, late: bool) -> str | None:
        code = self.process.exitcode or 0
        if late:
            return (f"compiling took longer than {self.request['seconds']} s and was stopped: large tiles that the "
                    "target multiplies without tensor cores, or a loop that never ends, do that")
        if code < 0:
            return f"the compiler crashed ({signal.Signals(-code).name})"
        return f"the compiling process ended early (exit status {code})" if code else None


def work_through(request: dict[str, Any], answer: Answer) -> None:
    """Answer all jobs of the request, a few at a time. answer(job, request) runs in the child."""
    left, running = list(request["jobs"]), list[Child]()
    while left or running:
        while left and len(running) < request["at_once"]:
            running.append(Child(left.pop(0), request, answer))
        wait([child.process.sentinel for child in running],
             timeout=max(0.0, min(child.deadline for child in running) - time.monotonic()))
        running = [child for child in running if not child.settled()]
