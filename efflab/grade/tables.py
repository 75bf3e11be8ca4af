"""Results on the terminal: a progress bar while grading, a table after it."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from efflab.checking.report import Report
from efflab.grade.grading import Result

if TYPE_CHECKING:
    from rich.table import Table

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
    """A line for each exercise of one submission, or a line for each of several; and the seed that repeats it all."""
    from rich.console import Console

    Console().print(_of_one(results[0]) if len(results) == 1 else _of_several(results))
    print(f"seed {seed} (--seed {seed} repeats these cases)")


def _of_one(result: Result) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(result.submission), title_justify="left")
    for heading in ("exercise", "outcome", "points", "what was found"):
        table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
    for report in result.reports:
        table.add_row(Text(report.exercise_id),
                      Text(MARKS[report.outcome], style=_STYLES[report.outcome]),
                      f"{report.points:g} / {report.max_points:g}", Text(_found(report)))
    table.add_section()
    table.add_row("total", "", f"{result.score:g} / {result.max_score:g}", Text(result.problem or ""))
    return table


def _of_several(results: Sequence[Result]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for heading in ("submission", "points", "outcomes", "what was found"):
        table.add_column(heading, justify="right" if heading == "points" else "left", overflow="fold")
    for result in results:
        counts = Counter(r.outcome for r in result.reports)
        outcomes = ", ".join(f"{n} {outcome.replace('_', ' ')}" for outcome, n in counts.items())
        found = [f"{r.exercise_id.rpartition('.')[2]}: {_found(r)}" for r in result.reports if _found(r)]
        table.add_row(Text(result.submission), f"{result.score:g} / {result.max_score:g}",
                      Text("not graded" if result.problem else outcomes, style="" if result.passed else "red"),
                      Text(result.problem or "\n".join(found)))
    return table


def _found(report: Report) -> str:
    """The mistake's name, or the first line of what a learner is told; nothing where there is nothing to say."""
    if report.outcome in ("passed", "not_attempted"):
        return ""
    return report.mistake or report.message.split("\n")[0][:200]
