"""X-rays as a table: plain text, HTML, and rich for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from efflab.gpu.xray import KernelXRay

HEADERS = ("GPU", "kernel", "shared KiB", "registers", "spills", "dot", "TMA", "fits")


def row(x: KernelXRay, case_below: bool = False) -> tuple[str, ...]:
    """One x-ray as words, in the order of HEADERS. case_below: the inputs' name on a line of its own."""
    name = ("\n" if case_below else " ").join(filter(None, (x.kernel, x.case and f"({x.case})",
                                                            x.config and f"[{x.config}]")))
    if x.error is not None:
        return (x.arch, name, *("–",) * 5, f"no: {x.error}")
    cores = "wgmma" if x.wgmma else "mma" if x.mma else "–"         # which tensor-core instructions, if any
    kib = x.shared_bytes / 1024
    shared = f"{kib:.{1 if kib < 10 else 0}f} of {x.shared_limit / 1024:.0f}"
    fits = "yes" if x.fits else "no: grid too large" if x.grid_too_large else "no: shared memory"
    return (x.arch, name, shared, str(x.registers), str(x.spills), cores, "yes" if x.tma else "no", fits)


def text(xrays: Sequence[KernelXRay]) -> str:
    """An aligned plain-text table."""
    rows = [HEADERS, *map(row, xrays)]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEADERS))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in rows)


def html(xrays: Sequence[KernelXRay]) -> str:
    """A table for notebooks; what does not fit is bold and says so in words."""
    head = "".join(f'<th scope="col" style="text-align:left">{h}</th>' for h in HEADERS)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{"<b>" if not x.fits else ""}{escape(cell)}'
                         f'{"</b>" if not x.fits else ""}</td>' for cell in row(x)) + "</tr>" for x in xrays)
    return (f'<table style="background:#fff;color:#111"><caption style="text-align:left">What the compiler says'
            f"</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def table(xrays: Sequence[KernelXRay], title: str) -> Any:
    """A rich table that keeps kernels' names whole in a terminal of 80 columns."""
    from rich.box import SIMPLE
    from rich.markup import escape as plain
    from rich.table import Column, Table

    columns = [Column(h, overflow="fold", no_wrap=h in ("GPU", "shared KiB", "dot")) for h in HEADERS]
    made = Table(*columns, title=plain(title), title_justify="left", box=SIMPLE, padding=0, show_edge=False)
    for x in xrays:
        made.add_row(*map(plain, row(x, case_below=True)), style=None if x.fits else "bold red")
    return made
