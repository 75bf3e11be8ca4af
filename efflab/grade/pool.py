"""Several graders at once, each a process of its own; one that dies costs only the submission it was at."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from efflab.grade import processes
from efflab.grade.grading import Grader, Result, Settings
from efflab.grade.submission import Submission


class _Slot:
    """One grader process and the index of the submission it is at, None while idle."""

    def __init__(self, settings: Settings) -> None:
        self._connection, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("fork")
        self._process = context.Process(target=_serve, args=(theirs, self._connection, settings))
        self._process.start()
        theirs.close()
        self.at: int | None = None

    @property
    def waits_on(self) -> list[Any]:
        return [self._connection, self._process.sentinel]

    def give(self, index: int, submission: Submission) -> None:
        self.at = index
        self._connection.send(submission)

    def take(self) -> Result | None:
        """Its result, or None when the process died."""
        with contextlib.suppress(EOFError, OSError):
            if self._connection.poll():
                return self._connection.recv()
        return None

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.send(None)
        self._connection.close()
        self._process.join(5.0 if self.at is None else 0.0)      # one that is at work is not waited for
        if self._process.is_alive():
            processes.kill_below(self._process.pid or 0)
            self._process.kill()
            self._process.join()


def _serve(connection: Connection, other_end: Connection, settings: Settings) -> None:
    """Grade what comes until None does, or the other side hangs up."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)         # the process that reads results decides when to stop
    other_end.close()
    processes.end_with_parent()
    processes.adopt_orphans()
    torch.set_num_threads(1)
    with Grader(settings) as grader, contextlib.suppress(EOFError, OSError):
        while (submission := connection.recv()) is not None:
            connection.send(grader.grade(submission))


def grade_all(submissions: Sequence[Submission], settings: Settings, *, jobs: int,
              on_result: Callable[[Result], None] = lambda result: None) -> list[Result]:
    """Results in the submissions' order. on_result is called for each as it comes. On a GPU one at a time, here."""
    found: dict[int, Result] = {}
    with tempfile.TemporaryDirectory(prefix="efflab-grade-", ignore_cleanup_errors=True) as folder:
        settings = replace(settings, scratch=Path(folder))
        one_by_one = _here(submissions, settings) if settings.walls.gpu else _spread(submissions, settings, jobs)
        with contextlib.closing(one_by_one):
            for index, result in one_by_one:
                found[index] = result
                on_result(result)
    return [found[i] for i in range(len(submissions))]


def _here(submissions: Sequence[Submission], settings: Settings) -> Generator[tuple[int, Result], None, None]:
    """In this process: one that has seen the GPU cannot be forked."""
    with Grader(settings) as grader:
        for index, submission in enumerate(submissions):
            yield index, grader.grade(submission)


def _spread(submissions: Sequence[Submission], settings: Settings,
            jobs: int) -> Generator[tuple[int, Result], None, None]:
    left = list(enumerate(submissions))[::-1]
    slots: list[_Slot] = []
    try:
        slots += [_Slot(settings) for _ in range(max(1, min(jobs, len(submissions))))]
        for slot in slots:
            slot.give(*left.pop())
        while any(s.at is not None for s in slots):
            ready = wait([w for s in slots if s.at is not None for w in s.waits_on])
            for number, slot in enumerate(slots):
                if slot.at is None or not any(w in ready for w in slot.waits_on):
                    continue
                index, result = slot.at, slot.take()
                slot.at = None
                if result is None:
                    slot.end()
                    slot = slots[number] = _Slot(settings)
                    result = Result(submissions[index].name, problem="The grader's process ended while it judged this "
                                    "submission; grade it again alone to see why.")
                yield index, result
                if left:
                    slot.give(*left.pop())
    finally:
        for slot in slots:
            slot.end()


def default_jobs() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
