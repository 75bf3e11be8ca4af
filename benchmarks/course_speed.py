"""How fast the course itself is, as ratios to what is allowed.

    python benchmarks/course_speed.py [import] [checks] [lessons] [grading] [--json]

import     what `import efflab` adds to `import torch`, as a part of it      at most 0.3
checks     one check of the course's own answer                             at most 1 s, with an interpreted kernel 10 s
lessons    one lesson from top to bottom, nothing filled in                 at most 90 s
grading    20 copies of one chapter, two at a time / one at a time          at most 0.6

The limits hold on two CPU cores that do nothing else. Exit status: 0 when all hold, 1 when not.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMPORTS = """
import time
begun = time.perf_counter()
import torch
middle = time.perf_counter()
import efflab
print(middle - begun, time.perf_counter() - middle)
"""


@dataclass(frozen=True)
class Measured:
    """value and allowed in `unit`; "ratio" has none."""

    what: str
    value: float
    allowed: float
    unit: str

    @property
    def share(self) -> float:
        """value / allowed: 1 or less holds."""
        return self.value / self.allowed


def measure_import(tries: int = 5) -> Iterator[Measured]:
    """The least of several fresh processes, each of which times both imports."""
    ratios = []
    for _ in range(tries):
        printed = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True).stdout
        torch_seconds, efflab_seconds = map(float, printed.split())
        ratios.append(efflab_seconds / torch_seconds)
    yield Measured("import efflab / import torch", min(ratios), 0.3, "ratio")


def measure_checks() -> Iterator[Measured]:
    """Each exercise's check of the course's answer, in this process, as a notebook does it."""
    from efflab import course
    from efflab.checking.interactive import check_function

    for chapter in course.ready_chapters():
        for exercise in course.exercises(chapter.slug):
            function = course.solution_of(exercise)
            begun = time.perf_counter()
            report = check_function(exercise, function, seed=0)
            seconds = time.perf_counter() - begun
            if not report.passed:
                raise RuntimeError(f"the course's own answer did not pass, so its time means nothing: {report}")
            yield Measured(f"check {exercise.id}", seconds, 10.0 if exercise.kernel else 1.0, "s")


def measure_lessons() -> Iterator[Measured]:
    """Each built notebook, nothing filled in, in a kernel of its own."""
    import nbformat
    from nbclient import NotebookClient

    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = nbformat.read(path, as_version=4)
            client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
            begun = time.perf_counter()
            client.execute()
            yield Measured(f"lesson {path.stem}", time.perf_counter() - begun, 90.0, "s")


def measure_grading(chapter: str = "online_softmax", copies: int = 20) -> Iterator[Measured]:
    """The same folder graded one at a time and two at a time, by the command that instructors use."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(copies):
            learner = Path(folder) / f"learner_{number:02d}"
            learner.mkdir()
            shutil.copy(ROOT / "solutions" / f"{chapter}.py", learner)
        seconds = {}
        for jobs in (1, 2):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-m", "efflab.cli", "grade", folder, "--jobs", str(jobs), "--seed", "0"],
                           check=True, capture_output=True)
            seconds[jobs] = time.perf_counter() - begun
    yield Measured(f"grading {copies} x {chapter}: {seconds[2]:.0f} s / {seconds[1]:.0f} s",
                   seconds[2] / seconds[1], 0.6, "ratio")


PARTS: dict[str, Callable[[], Iterator[Measured]]] = {
    "import": measure_import, "checks": measure_checks, "lessons": measure_lessons, "grading": measure_grading}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the course's own speed.")
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all by default")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    found = []
    for part in options.parts or PARTS:
        for measured in PARTS[part]():
            found.append(measured)
            if not options.json:
                print(f"{measured.what:60} {measured.value:8.3f} of {measured.allowed:5.1f} {measured.unit:6}"
                      f"{measured.share:7.2f}{'' if measured.share <= 1 else '  too slow'}", flush=True)
    if options.json:
        print(json.dumps([asdict(measured) | {"share": measured.share} for measured in found], indent=1))
    return 0 if all(measured.share <= 1 for measured in found) else 1


if __name__ == "__main__":
    sys.exit(main())
