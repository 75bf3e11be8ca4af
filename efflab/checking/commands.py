"""`efflab progress`, and the map of the course that the start page shows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click


@dataclass(frozen=True)
class Row:
    number: int
    slug: str
    title: str
    part: str
    builds: str
    ready: bool
    done: int               # exercises passed
    exercises: int
    points: float
    max_points: float

    @property
    def state(self) -> str:
        if not self.ready:
            return "planned"
        bar = "█" * self.done + "░" * (self.exercises - self.done)
        return f"{bar} {self.done} of {self.exercises} exercises, {self.points:g} of {self.max_points:g} points"


@dataclass(frozen=True)
class Map:
    """All chapters with what has been reached; displays itself as HTML and as text."""

    rows: tuple[Row, ...]

    @classmethod
    def of(cls, chapters: Iterable[Any], entries: Mapping[str, Mapping[str, Any]]) -> Map:
        from efflab import course

        rows = []
        for c in chapters:
            exercises = course.exercises(c.slug) if c.ready else ()
            best = [float(entries.get(e.id, {}).get("best", 0)) for e in exercises]
            rows.append(Row(c.number, c.slug, c.title, c.part, c.builds, c.ready, sum(b > 0 for b in best),
                            len(exercises), sum(best), sum(e.points for e in exercises)))
        return cls(tuple(rows))

    def __str__(self) -> str:
        lines: list[str] = []
        part = ""
        for row in self.rows:
            if row.part != part:
                part = row.part
                lines.append(part)
            lines.append(f"  {row.number:02d}  {row.title:<28} {row.state}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = []
        part = ""
        for row in self.rows:
            if row.part != part:
                part = row.part
                cells.append('<tr><th colspan="4" scope="rowgroup" style="text-align:left;padding-top:8px">'
                             f'{part}</th></tr>')
            name = html.escape(row.title)
            if row.ready:
                name = f'<a href="{row.number:02d}_{row.slug}.ipynb">{name}</a>'
            cells.append(f'<tr><td>{row.number:02d}</td><td style="text-align:left">{name}</td>'
                         f'<td style="text-align:left">{html.escape(row.builds)}</td>'
                         f'<td style="text-align:left;white-space:nowrap">{html.escape(row.state)}</td></tr>')
        return ('<table><caption style="text-align:left">The course, and how far you are</caption>'
                '<tr><th>#</th><th style="text-align:left">Chapter</th><th style="text-align:left">You build</th>'
                '<th style="text-align:left">Progress</th></tr>' + "".join(cells) + "</table>")


@click.group(invoke_without_command=True)
@click.pass_context
def progress(context: click.Context) -> None:
    """Show the course with what you have passed; export it or import it."""
    if context.invoked_subcommand is None:
        from efflab import course
        from efflab.checking import progress as store

        with _plainly():
            click.echo(str(Map.of(course.CHAPTERS, store.load())))
            click.echo(f"\nkept in {store.path()}")


@progress.command("export")
@click.argument("file", type=click.Path(path_type=Path))
def export_command(file: Path) -> None:
    """Write all progress to FILE (for another machine, or from Colab)."""
    from efflab.checking import progress as store

    with _plainly():
        click.echo(f"{store.export_to(file)} exercises written to {file}.")


@progress.command("import")
@click.argument("file", type=click.Path(path_type=Path))
def import_command(file: Path) -> None:
    """Take in FILE, made by `efflab progress export`; for each exercise the better outcome stays."""
    from efflab.checking import progress as store

    with _plainly():
        click.echo(f"{store.import_from(file)} exercises taken in from {file}.")


class _CannotRun(click.ClickException):
    exit_code = 2


class _plainly:
    """Turn errors that a user can mend into one line and exit status 2."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        from efflab.checking.progress import ProgressError

        if isinstance(error, FileExistsError):
            message = f"{error.filename} is there already and was left as it is; choose another name."
        elif isinstance(error, ProgressError):
            message = str(error)
        elif isinstance(error, OSError):
            message = f"{error.filename}: {error.strerror}."
        else:
            return
        raise _CannotRun(message) from error
