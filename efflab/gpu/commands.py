"""efflab doctor, efflab xray, efflab bench."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from efflab import course


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> None:
    """What this machine can do, and what is wrong with it.

    Exit status: 0 all right, 1 a problem was found.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from efflab.gpu.doctor import examine

    diagnosis = examine()
    if as_json:
        click.echo(json.dumps(diagnosis.as_dict(), indent=1))
    else:
        console = Console()
        console.print(diagnosis.machine.line, markup=False, highlight=False)
        table = Table("", "what", "found")
        for f in diagnosis.findings:
            mark = "ok" if f.good else "PROBLEM"
            table.add_row(mark, f.what, escape(f.value if f.good else f"{f.value}\n{f.advice}"),
                          style=None if f.good else "bold red")
        console.print(table)
    sys.exit(0 if diagnosis.good else 1)


@click.command()
@click.argument("chapter")
@click.option("--arch", multiple=True, help="Only this architecture (sm_75, sm_80, sm_89, sm_90); may be repeated.")
@click.option("--path", type=click.Path(path_type=Path), help="Your own .py file instead of the course's solutions.")
@click.option("--json", "as_json", is_flag=True, help="Print the x-rays as JSON.")
def xray(chapter: str, arch: tuple[str, ...], path: Path | None, as_json: bool) -> None:
    """Compile a chapter's kernels for GPUs that need not be there.

    Exit status: 0 all right, 1 a kernel does not fit, spills or lacks what it should use, 2 it could not run.
    """
    from efflab.gpu import bench
    from efflab.gpu import xray as x
    from efflab.gpu.targets import UnknownArch, target

    try:
        arches = tuple(target(a).arch for a in arch) or None
        exercises = [e for e in course.exercises(chapter) if e.kernel is not None and e.kernel.xrays]
    except (UnknownArch, course.UnknownChapter) as error:
        raise click.UsageError(str(error)) from None
    if not exercises:
        raise click.UsageError(f"Chapter {course.chapter(chapter).slug} asks for no x-rays: it has no kernel exercise.")
    if (reason := x.available()) is not None:
        raise click.UsageError(reason)
    if path is not None and not path.is_file():
        raise click.UsageError(f"There is no file {path}.")
    seen = [(e, x.exercise_xrays(e, path or bench.solution_path(e), arch=arches)) for e in exercises]
    problems = [p for _, pairs in seen for one, kernels in pairs for p in x.judge_one(one, kernels)]
    _print_xrays([(e.id, [k for _, kernels in pairs for k in kernels]) for e, pairs in seen], problems, as_json)
    sys.exit(1 if problems else 0)


def _print_xrays(seen: list[tuple[str, list[Any]]], problems: list[str], as_json: bool) -> None:
    from rich.console import Console

    from efflab.gpu import _xray_view

    if as_json:
        found = [{"exercise": name, **k.as_dict()} for name, kernels in seen for k in kernels]
        click.echo(json.dumps({"xrays": found, "problems": problems}, indent=1))
        return
    console = Console()
    for name, kernels in seen:
        console.print(_xray_view.table(kernels, name))
    for problem in problems:
        console.print(problem, style="bold red", markup=False)


@click.command()
@click.argument("chapters", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the run as JSON, progress on standard error.")
@click.option("--out", type=click.Path(path_type=Path), help="The file to merge into; default results/<GPU name>.json.")
def bench(chapters: tuple[str, ...], as_json: bool, out: Path | None) -> None:
    """Measure the solutions against their peers and bars on this GPU.

    Exit status: 0 all bars that count here are reached, 1 one is missed, 2 it could not run.
    """
    import torch

    from efflab.gpu import bench as b
    from efflab.gpu import results

    if not torch.cuda.is_available():
        raise click.UsageError("There is no GPU here to measure. efflab xray CHAPTER compiles its kernels without one.")
    try:
        slugs = [course.chapter(c).slug for c in chapters] or b.measured_chapters()
        for slug in slugs:
            course.exercises(slug)
    except course.UnknownChapter as error:
        raise click.UsageError(str(error)) from None
    where = out or (folder / results.file_name(torch.cuda.get_device_name()) if (folder := results.folder()) else None)
    if where is not None and where.exists():
        try:
            results.read(where)         # now, not after minutes of measuring
        except results.DamagedResults as error:
            raise click.UsageError(str(error)) from None
    command = " ".join(["efflab", "bench", *chapters])
    run = b.run(slugs, command, lambda text: click.echo(text, err=True),
                lambda so_far: None if where is None else results.save(so_far, where))
    click.echo("not saved: efflab was installed without its repository; choose a file with --out" if where is None
               else f"saved in {where}", err=True)
    _print_bench(run, as_json)
    sys.exit(1 if any(c["problems"] for c in run["chapters"].values()) else 0)


def _print_bench(run: dict[str, Any], as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    if as_json:
        click.echo(json.dumps(run, indent=1))
        return
    console = Console()
    table = Table("bar", "ms", "peer", "peer ms", "ratio", "at least", "reached",
                  title=f"{run['gpu']}, torch {run['torch']}, triton {run['triton']}", title_justify="left")
    for chapter in run["chapters"].values():
        for r in chapter["bars"]:
            if r["ms"] is None:
                table.add_row(r["name"], "–", r["peer"], "–", "–", f"{r['at_least']:.2f}",
                              r["skipped_reason"] or r["error"])
                continue
            reached = ("refused: below the physical limit" if r["below_physical_limit"] else
                       "yes" if r["passed"] else "no" if r["judged"] else "no, not judged here")
            table.add_row(r["name"], f"{r['ms']:.3f}", r["peer"], f"{r['peer_ms']:.3f}", f"{r['ratio']:.2f}",
                          f"{r['at_least']:.2f}", reached)
    console.print(table)
    for problem in (p for c in run["chapters"].values() for p in c["problems"]):
        console.print(problem, style="bold red", markup=False)
