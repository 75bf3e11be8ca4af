"""Run the commands of the set-up one by one: a line for each, its output in a log, advice when one fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .advice import advise

_LINES_SHOWN = 12


class SetupFailed(Exception):
    """The message is complete: what failed, where, what to do."""


class Steps:
    """Shows "[2/4] title … 3 s" on standard error; on a terminal also the latest line of output while it runs.

    log: receives all output. keep_open: file descriptors that the commands inherit (the lock is held until they end).
    """

    def __init__(self, total: int, checkout: Path, log: Path, keep_open: Sequence[int] = ()) -> None:
        self.total = total
        self.number = 0
        self.checkout = checkout
        self.log = log
        self.keep_open = tuple(keep_open)
        self.terminal = sys.stderr.isatty()

    def run(self, title: str, *commands: Sequence[str | Path]) -> str:
        """Run the commands of one step and return their output. Raises SetupFailed with advice."""
        self.number += 1
        head = f"[{self.number}/{self.total}] {title}"
        show(head + " … ")
        started = time.monotonic()
        output = ""
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n{head}\n")
            for command in commands:
                status, text = self._follow([str(word) for word in command], head, started, log)
                output += text
                if status:
                    self._line(head, f"failed after {time.monotonic() - started:.0f} s\n")
                    raise SetupFailed(self._explain(title, output + f"\nexit status {status}"))
        self._line(head, f"{time.monotonic() - started:.0f} s\n")
        return output

    def _follow(self, command: list[str], head: str, started: float, log: IO[str]) -> tuple[int, str]:
        """Run one command; copy its output to the log as it comes. Returns (exit status, output)."""
        log.write("$ " + " ".join(command) + "\n")
        log.flush()
        lines: list[str] = []
        done = threading.Event()
        if self.terminal:
            threading.Thread(target=self._tick, args=(head, started, lines, done), daemon=True).start()
        try:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", cwd=self.checkout, env=pip_environment(),
                                  pass_fds=self.keep_open) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    lines.append(line)
                    log.write(line)
            return process.returncode, "".join(lines)
        finally:
            done.set()

    def _tick(self, head: str, started: float, lines: list[str], done: threading.Event) -> None:
        while not done.wait(0.5):
            latest = next((line.strip() for line in reversed(lines) if not line.startswith("WARNING")), "")
            self._line(head, f"{time.monotonic() - started:.0f} s  {latest}")

    def _line(self, head: str, text: str) -> None:
        """Write the step's line again (terminal) or go on with it (file)."""
        if not self.terminal:
            show(text)
            return
        width = shutil.get_terminal_size().columns - 1
        end = "\n" if text.endswith("\n") else ""
        show(f"\r\x1b[K{head} … {text.rstrip()}"[: width + 4] + end)

    def _explain(self, title: str, output: str) -> str:
        tail = [line for line in output.splitlines() if line.strip()][-_LINES_SHOWN:]
        shown = "\n".join(f"    {line[:200]}" for line in tail)
        return (f"This step failed: {title}\n\nThe last lines of its output (all of it is in {self.log}):\n{shown}\n\n"
                f"What to do\n{advise(output, self.checkout)}")


def show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def pip_environment() -> dict[str, str]:
    """This process's environment without what would make pip install elsewhere than in .venv, or other versions."""
    dropped = ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_CONSTRAINT", "PIP_REQUIREMENT")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
                   "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}
