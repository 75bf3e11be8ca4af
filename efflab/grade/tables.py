"""Results on the terminal: a progress bar while grading, a table after it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence

from efflab.grade.grading import Result

MARKS = {"passed": "passed", "failed": "FAILED", "error": "ERROR", "not_attempted": "–", "skipped": "skipped"}
_STYLES = {"passed": "green", "failed": "red", "error": "red", "not_attempted": "dim", "skipped": "yellow"}


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[Result], None]]:
    """A bar on standard error, where that is a terminal; call the yielded function with each result."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda result: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("grading", total=total)
        yield lambda result: bar.update(task, advance=1)


def show(results: Sequence[Result], *, seed: int) -> None:
    """One line for each exercise of each submission, and the seed that repeats it all."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in ("submission", "exercise", "outcome", "points", "what was found"):
        table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
    for result in results:
        for report in result.reports:
            first = report.message.splitlines()[0] if report.message else ""
            said = report.mistake or (first if report.outcome in ("failed", "error", "skipped") else "")
            table.add_row(Text(result.submission), Text(report.exercise_id),
                          Text(MARKS[report.outcome], style=_STYLES[report.outcome]),
                          f"{report.points:g} / {report.max_points:g}", Text(said[:200]))
        table.add_row(Text(result.submission), Text("total", style="bold"),
                      Text("not graded" if result.problem else "", style="red"),
                      f"{result.score:g} / {result.max_score:g}", Text((result.problem or "")[:200]), end_section=True)
    Console().print(table)
    print(f"seed {seed} (--seed {seed} repeats these cases)")
