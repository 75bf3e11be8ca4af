"""Pictures of chapter 03, and its widgets. Those that take a function run the learner's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from efflab import show
from efflab.chapters.online_softmax import measured
from efflab.chapters.online_softmax.traffic import bytes_moved
from efflab.chapters.online_softmax.widgets import overflow, scrub, shuffle_trees

__all__ = ["against_copy", "h200_bars", "h200_curve", "opening", "overflow", "registers", "scrub", "shuffle_trees",
           "traffic"]


def opening() -> None:
    """Softmax on this machine, as PyTorch has it and as five operators, beside a copy."""
    def five_operators(x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)

    against_copy({"torch.softmax": lambda x: torch.softmax(x, -1), "softmax in five operators": five_operators})


def against_copy(functions: Mapping[str, Callable[[torch.Tensor], Any]], rows: int = 512, cols: int = 4096) -> None:
    """Time functions of x (rows, cols), float32, on this machine, beside a copy of x."""
    from efflab.gpu import timing

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        rows *= 128
    sets = [{"x": torch.randn(rows, cols, device=device)} for _ in range(2)]
    sides = {"copy": timing.Side(function=lambda x: x.clone(), sets=sets)}
    sides |= {name: timing.Side(function=lambda x, f=f: f(x), sets=sets) for name, f in functions.items()}
    times = timing.race(sides, warmup=2, repeats=9)
    table = [[name, t.ms, t.ms / times["copy"].ms] for name, t in times.items()]
    show.table(table, ["", "ms", "times a copy"], caption=f"x ({rows:,}, {cols:,}) float32, this machine")


@show.style()
def h200_bars() -> None:
    """What the softmaxes reach on an H200, beside a copy, from results/ or from the course's first measurement."""
    rates, source = measured.softmax_rates()
    fig, ax = show.canvas(height=0.55 * len(rates) + 1.2)
    names = list(rates)
    colours = [show.GREY if n == "copy" else show.BLUE if "fused" in n else show.ORANGE for n in names]
    hatches = ["" if n == "copy" else "" if "fused" in n else "//" for n in names]
    for i, name in enumerate(names):
        ax.barh(i, rates[name], color=colours[i], hatch=hatches[i], edgecolor="white", height=0.62)
        ax.text(rates[name] + 0.05, i, f"{rates[name]:.2f}", va="center")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlim(0, max(rates.values()) * 1.12)
    ax.set_xlabel("TB/s, counting x read once and y written once")
    ax.set_title("softmax of 65,536 × 4,096 bfloat16")
    said = ", ".join(f"{name} {rate:.2f}" for name, rate in rates.items())
    show.figure(fig, alt=f"Bars, TB/s on an H200, softmax of 65,536 x 4,096 bfloat16: {said}. {source}")
    print(source)


@show.style()
def traffic(functions: Mapping[str, Callable[[torch.Tensor], Any]], rows: int = 64, cols: int = 16_384,
            planned: Mapping[str, tuple[int, int]] | None = None) -> None:
    """Count the bytes that each function of x moves past a small cache, in units of x's own bytes.

    planned: more bars (reads, writes) in the same unit, for what cannot run under the counter, such as a kernel.
    """
    x = torch.randn(rows, cols)
    unit = x.numel() * x.element_size()
    counted: dict[str, tuple[float, float]] = {}
    for name, function in functions.items():
        moved = bytes_moved(function, x)
        counted[name] = (moved.read / unit, moved.written / unit)
    counted |= planned or {}
    fig, ax = show.canvas(height=0.6 * len(counted) + 1.3)
    for i, (read, written) in enumerate(counted.values()):
        ax.barh(i, read, color=show.BLUE, height=0.6, label="read" if i == 0 else None)
        ax.barh(i, written, left=read, color=show.ORANGE, hatch="//", edgecolor="white", height=0.6,
                label="written" if i == 0 else None)
        ax.text(read + written + 0.1, i, f"{read + written:.1f} = {read:.1f} + {written:.1f}", va="center")
    ax.set_yticks(range(len(counted)), counted)
    ax.invert_yaxis()
    ax.set_xlim(0, max(sum(c) for c in counted.values()) * 1.3)
    ax.set_xlabel("bytes moved, in units of the size of x")
    ax.set_title("Bytes between memory and chip")
    ax.legend(loc="lower right")
    said = "; ".join(f"{name} {r:.1f} read and {w:.1f} written" for name, (r, w) in counted.items())
    show.figure(fig, alt=f"Bytes moved in units of the size of x. {said}.")


@show.style()
def h200_curve() -> None:
    """TB/s against the length of a row, on an H200."""
    curve, source = measured.softmax_curve()
    fig, ax = show.canvas(height=3.4)
    names = {"clone": "copy", "fused_softmax": "fused_softmax", "compiled_softmax": "torch.compile",
             "torch_softmax": "torch.softmax"}
    ticks = curve["sizes"]
    for i, (name, rates) in enumerate(curve["series"].items()):
        points = [(n, rate) for n, rate in zip(curve["sizes"], rates, strict=True) if rate is not None]
        copy = name == "clone"
        ax.plot(*zip(*points, strict=True), marker=show.MARKERS[i], color=show.GREY if copy else show.CYCLE[i],
                label=names.get(name, name), linestyle="--" if copy else "-")
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, [f"{n:,}" for n in ticks])
    ax.set_ylim(0, 4.9)
    ax.set_xlabel("N, numbers in a row (2²⁸ numbers in all, bfloat16)")
    ax.set_ylabel("TB/s")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    said = "; ".join(f"{names.get(name, name)} " + ", ".join("none" if r is None else f"{r:.2f}" for r in rates)
                     for name, rates in curve["series"].items())
    show.figure(fig, alt=f"TB/s on an H200 for rows of {curve['sizes']} numbers: {said}. {source}")
    print(source)


def registers(fused_softmax: Callable[[torch.Tensor], torch.Tensor], arch: str = "sm_90") -> None:
    """What the compiler says about the learner's kernel for a row that fits in registers and one that does not."""
    from efflab.gpu import xray

    reason = xray.available()
    if reason is not None:
        print(f"No x-ray here: {reason}")
        return
    rows = []
    for cols in (4_096, 65_536):
        for k in xray.show(fused_softmax, {"x": torch.empty(64, cols, dtype=torch.float16)}, arch):
            kept = cols * 4 / 1024
            rows.append([f"{cols:,}", f"{kept:.0f} KiB", k.num_warps * 32, k.registers, k.spills] if k.error is None
                        else [f"{cols:,}", f"{kept:.0f} KiB", "-", "-", k.error])
    show.table(rows, ["N", "row in float32", "threads", "registers a thread", "spilled"],
               caption=f"fused_softmax, compiled for {arch}")
