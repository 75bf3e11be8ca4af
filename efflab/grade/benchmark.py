"""How grading scales: 20 copies of one chapter's solutions, with one job and with two.

    python -m efflab.grade.benchmark [CHAPTER] [COPIES]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from efflab import course
from efflab.grade import isolate, pool
from efflab.grade.grading import Settings
from efflab.grade.submission import find


def seconds(folder: Path, jobs: int) -> float:
    """Wall clock to grade every submission in the folder."""
    start = time.perf_counter()
    results = pool.grade_all(find([folder]), Settings(walls=isolate.walls(), seed=1), jobs=jobs)
    if not all(r.passed for r in results):
        raise SystemExit("a solution did not pass: " + next(str(r.reports) for r in results if not r.passed))
    return time.perf_counter() - start


def main(slug: str, copies: int) -> None:
    top = course.root()
    if top is None:
        raise SystemExit("The benchmark needs a checkout: it grades copies of solutions/.")
    with tempfile.TemporaryDirectory() as name:
        for n in range(copies):
            folder = Path(name) / f"copy{n:02d}"
            folder.mkdir()
            shutil.copy(top / "solutions" / f"{slug}.py", folder)
        one, two = (seconds(Path(name), jobs) for jobs in (1, 2))
    print(f"{copies} copies of {slug}: --jobs 1 {one:.1f} s, --jobs 2 {two:.1f} s, ratio {two / one:.2f} (at most 0.60)")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "roofline", int(sys.argv[2]) if len(sys.argv) > 2 else 20)
