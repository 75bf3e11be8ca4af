"""`efflab grade PATH…` for a class and `efflab check PATH` for one's own file: one pipeline, two ways to show it."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


class CannotRun(click.ClickException):
    """The command could not do what it was asked for; the message says what to do."""

    exit_code = 2


def _shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that both commands take."""
    for option in (
        click.option("--chapter", metavar="SLUG", help="Grade as this chapter, whatever the files are called."),
        click.option("--exercise", metavar="NAME", help="Only this exercise."),
        click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Repeat the cases of an earlier run."),
        click.option("--timeout", type=click.FloatRange(min=0.1), default=120.0, show_default=True, metavar="SECONDS",
                     help="Wall clock for one exercise."),
        click.option("--memory", type=click.FloatRange(min=0.5), default=8.0, show_default=True, metavar="GB",
                     help="Memory for one exercise, on top of Python and PyTorch."),
        click.option("--no-bwrap", is_flag=True, help="Use limits only, even where bubblewrap is installed."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH…")
@_shared
@click.option("--jobs", type=click.IntRange(min=1), help="Submissions at a time.  [default: the number of cores]")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON on standard output.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
              help="Write grades.csv, index.html and a page for each submission into DIR.")
def grade(paths: tuple[Path, ...], jobs: int | None, as_json: bool, out: Path | None, **options: Any) -> None:
    """Grade .py files and notebooks, single ones or folders of them.

    Exit status: 0 when all passed, 1 when not, 2 when it could not run.
    """
    from efflab.grade import pool, tables

    submissions = _find(paths)
    settings = _settings(**options)
    click.echo(settings.walls.sentence, err=True)
    with tables.progress(len(submissions)) as advance:
        results = pool.grade_all(submissions, settings, jobs=jobs or pool.default_jobs(), on_result=advance)
    if out is not None:
        from efflab.grade import pages

        try:
            index = pages.write(results, out, seed=settings.seed, walls=settings.walls.sentence)
        except OSError as error:
            raise CannotRun(f"The pages could not be written to {out}: {error.strerror}.") from error
        click.echo(f"Pages and grades.csv are in {index.parent}.", err=True)
    single = len(paths) == 1 and not paths[0].is_dir()
    if as_json:
        told = [r.as_dict() for r in results]
        click.echo(json.dumps(told[0] if single else told, ensure_ascii=False, indent=1))
    else:
        tables.show(results, seed=settings.seed)
    for result in results:
        if result.problem:
            click.echo(f"{result.submission}: {result.problem}", err=True)
    _leave(results)


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@_shared
def check(path: Path, **options: Any) -> None:
    """Check your own file or notebook: a report for each exercise, kept in your progress.

    Exit status: 0 when all passed, 1 when not, 2 when it could not run.
    """
    from efflab.checking import progress
    from efflab.grade import pool

    settings = _settings(show=True, **options)
    results = pool.grade_all(_find((path,)), settings, jobs=1)
    kept = True
    for result in results:
        for report in result.reports if result.problem is None else ():
            click.echo(str(report))
            try:
                if kept:
                    progress.record(report)
            except progress.ProgressError as error:
                kept = False
                click.echo(f"efflab: {error}", err=True)
        for note in [*result.notes, *([result.problem] if result.problem else [])]:
            click.echo(f"{result.submission}: {note}", err=True)
    score, most = sum(r.score for r in results), sum(r.max_score for r in results)
    click.echo(f"{score:g} of {most:g} points · seed {settings.seed} (--seed {settings.seed} repeats these cases)")
    _leave(results)


def _find(paths: tuple[Path, ...]) -> list[Any]:
    from efflab.grade.submission import Unreadable, find

    try:
        return find(paths)
    except Unreadable as problem:
        raise CannotRun(str(problem)) from problem


def _settings(*, chapter: str | None, exercise: str | None, seed: int | None, timeout: float, memory: float,
              no_bwrap: bool, show: bool = False) -> Any:
    if sys.platform == "win32":
        raise CannotRun("Grading needs Linux or macOS. On Windows, run it in WSL.")
    import torch

    from efflab import course
    from efflab.grade import isolate
    from efflab.grade.grading import Settings

    try:
        slug = course.chapter(chapter).slug if chapter else None
        if slug:
            course.exercises(slug)
        if exercise:
            found = course.find_exercise(exercise, prefer=slug)
            exercise, slug = found.id, slug or found.chapter
    except (course.UnknownChapter, course.UnknownExercise) as problem:
        raise CannotRun(str(problem)) from problem
    walls = isolate.walls(bwrap=not no_bwrap, memory=int(memory * 2**30), seconds=timeout,
                          gpu=torch.cuda.is_available())
    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    return Settings(walls=walls, seed=seed, chapter=slug, exercise=exercise, show=show)


def _leave(results: list[Any]) -> None:
    if all(r.problem is not None for r in results):
        sys.exit(2)
    sys.exit(0 if all(r.passed for r in results) else 1)
