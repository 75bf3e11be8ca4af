"""efflab lab, start, reset."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from efflab import course
from efflab.workspace import copies


class CannotRun(click.ClickException):
    exit_code = 2


def _explained(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what can go wrong with the copies into a message and exit status 2."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (copies.WorkspaceError, course.UnknownChapter) as problem:
            raise CannotRun(str(problem)) from None
        except OSError as problem:
            raise CannotRun(f"{problem.strerror or problem}: {problem.filename or 'work/'}. No copy was lost. Is the "
                            "disk full, or work/ not yours to write? Free some space or make it writable, then run "
                            "the same command again.") from None

    return run


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("jupyter_options", nargs=-1, type=click.UNPROCESSED)
@_explained
def lab(jupyter_options: tuple[str, ...]) -> None:
    """Open the course in JupyterLab, on your own copies in work/.

    JUPYTER_OPTIONS are passed on:  lab -- --no-browser --port 8899
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise CannotRun("JupyterLab is not installed in this environment. Install it:   pip install jupyterlab")
    space = copies.here()
    for line in copies.refresh(space, copies.lessons(space)):
        click.echo(line)
    start_page = space.work / f"{course.CHAPTERS[0].file_stem}.ipynb"
    if not start_page.is_file():
        raise copies.WorkspaceError("notebooks/ has no built lessons: run ./run build")
    sys.stdout.flush()
    command = [sys.executable, "-m", "jupyterlab", *server_options(), *jupyter_options, str(start_page)]
    os.execv(sys.executable, command)


def server_options() -> list[str]:
    """What JupyterLab needs on this machine: root's consent, and no browser where none can be seen."""
    options = []
    if os.geteuid() == 0:
        options.append("--allow-root")  # cloud GPU machines; the server listens on this machine only, with a token
    if os.environ.get("SSH_CONNECTION") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        options.append("--no-browser")
        click.echo("On your own computer, forward the port (another one if JupyterLab names another), then open the\n"
                   "address that JupyterLab prints:   ssh -L 8888:localhost:8888 THIS_MACHINE")
    return options


@click.command()
@click.argument("chapter")
@_explained
def start(chapter: str) -> None:
    """Copy a chapter's stub into work/, for those who work in an editor. Never overwrites."""
    space = copies.here()
    source = copies.stub_of(space, course.chapter(chapter))
    lines = copies.refresh(space, [source])
    copy = _relative(space.work / source.name)
    for line in lines or [f"{copy} is there already and stays as it is ({_relative(space.checkout / 'run')} reset "
                          f"{source.stem} sets it aside and makes a fresh one)."]:
        click.echo(line)
    click.echo(f"Check it with:   {_relative(space.checkout / 'run')} check {copy}")


@click.command()
@click.argument("chapter")
@_explained
def reset(chapter: str) -> None:
    """Set your copies of a chapter aside in work/backups/ and make fresh ones."""
    for line in copies.reset(copies.here(), chapter):
        click.echo(line)


def _relative(path: Path) -> str:
    """The path as one would type it here: ./run, work/x.py, or the whole path from another folder."""
    try:
        shown = str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
    return f"./{shown}" if "/" not in shown and path.suffix == "" else shown
