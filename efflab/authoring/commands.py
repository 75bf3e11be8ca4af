"""efflab build, efflab execute, efflab new."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from efflab.authoring.errors import AuthoringError
from efflab.authoring.layout import ChapterFacts, Course, this_course


@click.command()
@click.argument("chapters", nargs=-1, metavar="[CHAPTER]...")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail when a built file differs.")
def build(chapters: tuple[str, ...], only_check: bool) -> None:
    """Make notebooks/*.ipynb and exercises/*.py from lessons and solutions.

    Without a CHAPTER: all that are written.
    """
    course = _or_stop(this_course)
    chosen = _or_stop(lambda: _chosen(course, chapters))
    if only_check:
        _check(course, chosen, everything=not chapters)
        return
    from efflab.authoring.build import build as build_files

    changed = _or_stop(lambda: build_files(course, chosen))
    for path in changed:
        click.echo(f"wrote {course.shown(path)}")
    click.echo(f"{len(chosen)} chapters built, {len(changed)} files changed.")


@click.command()
@click.argument("chapters", nargs=-1, required=True, metavar="CHAPTER...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for the notebooks [default: solutions/executed].")
@click.option("--timeout", type=click.FloatRange(min=1), default=600, show_default=True, help="Seconds for one cell.")
def execute(chapters: tuple[str, ...], out: Path | None, timeout: float) -> None:
    """Run built lessons with the solutions filled in and keep their outputs.

    Do it on a GPU for the notebooks in the repository. Nothing is overwritten by a run that fails.
    """
    from efflab.authoring.execute import main

    sys.exit(main(list(chapters), out, timeout))


@click.command()
@click.argument("chapter")
def new(chapter: str) -> None:
    """Lay out a CHAPTER of the course table (efflab/course.py): an example to fill in."""
    from efflab.authoring.skeleton import lay_out
    from efflab.course import chapter as find

    course = _or_stop(this_course)
    for path in _or_stop(lambda: lay_out(course, find(chapter))):
        click.echo(f"wrote {course.shown(path)}")
    slug = _or_stop(lambda: find(chapter)).slug
    click.echo(f"It works as it stands:  ./run build {slug}  and  pytest tests -k {slug}\n"
               "Replace the example and every TODO; tests/authoring/test_chapter_complete.py says what is lacking.")


def _check(course: Course, chosen: list[ChapterFacts], *, everything: bool) -> NoReturn:
    from efflab.authoring.build import differences, outdated_runs, stale_files

    found = _or_stop(lambda: differences(course, chosen))
    found += stale_files(course) if everything else []
    todo = {"missing": "is missing; run: ./run build",
            "different": "differs from its sources. A built file is not edited: change the lesson or the solution, "
                         "then run: ./run build",
            "stale": "is built from sources that are not there any more; delete it"}
    for difference in found:
        click.echo(f"{course.shown(difference.path)} {todo[difference.kind]}")
        if difference.diff:
            click.echo("\n".join(f"    {line}" for line in difference.diff.splitlines()))
    for path in outdated_runs(course, chosen):
        click.echo(f"{course.shown(path)} ran before the lesson's last change; on a GPU run: "
                   f"./run execute {path.stem.partition('_')[2]}", err=True)
    if found:
        click.echo(f"{len(found)} built files do not agree with their sources.")
        sys.exit(1)
    click.echo(f"{len(chosen)} chapters: every built file agrees with its sources.")
    sys.exit(0)


def _chosen(course: Course, names: tuple[str, ...]) -> list[ChapterFacts]:
    """The chapters named, which must have their sources; without names all that do. The others are mentioned."""
    from efflab.course import chapter as find

    chosen: list[ChapterFacts] = [find(name) for name in names] or [c for c in course.chapters if c.ready]
    buildable: list[ChapterFacts] = []
    for chapter in chosen:
        missing = [course.shown(path) for path in course.missing_sources(chapter)]
        if not missing:
            buildable.append(chapter)
        elif names:
            raise AuthoringError(f"Chapter {chapter.slug} cannot be built: {', '.join(missing)} is not there. "
                                 f"./run new {chapter.slug} lays out a new chapter.")
        else:
            click.echo(f"{chapter.file_stem} is not built yet: {', '.join(missing)} is not there.", err=True)
    return buildable


def _or_stop(action: Callable):  # type: ignore[no-untyped-def,type-arg]
    """The action's result; its own kind of error ends the command with the message and exit status 2."""
    from efflab.course import UnknownChapter

    try:
        return action()
    except (AuthoringError, UnknownChapter) as error:
        click.echo(f"efflab: {error}", err=True)
        sys.exit(2)
