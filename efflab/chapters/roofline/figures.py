"""Chapter 01's pictures and widgets, most of them drawn by the learner's own functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from efflab import show
from efflab.chapters.roofline.chips import CHIPS, Chip, chip
from efflab.chapters.roofline.clocks import copy_speed, hasty, scoreboard, staircase, timeline, zeros
from efflab.chapters.roofline.measure import MeasuredMachine, Stopwatch, human
from efflab.chapters.roofline.operations import LAYER_NORM_FLOPS, Count

__all__ = ["chip_table", "copy_speed", "data_sheets", "explore", "first_roof", "hasty", "hierarchy", "opening",
           "scoreboard", "staircase", "timeline", "zeros"]

Attainable = Callable[[Any, float, float], Any]
Bound = Callable[[float, float, float], str]
HEADS, KV_HEADS, WIDTH = 32, 8, 4096        # of the model whose layers the roofline shows


def _plain(value: float) -> str:
    """Three digits, never as 1e+03."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# The opening ---------------------------------------------------------------------------------------
def opening() -> None:
    """Two products on this machine, many rows and one row, in FLOP/s."""
    from solutions.roofline import median_time

    watch = Stopwatch(median_time)
    dtype = torch.float32 if not watch.on_gpu else torch.float16
    k, m = (8192, 28672) if watch.on_gpu else (4096, 4096)
    weight = torch.randn(k, m, device=watch.device).to(dtype)
    rates = {}
    for rows in (2048 if watch.on_gpu else 256, 1):
        x = torch.randn(rows, k, device=watch.device).to(dtype)
        out = torch.empty(rows, m, device=watch.device, dtype=dtype)
        seconds = watch.seconds(partial(torch.mm, x, weight, out=out), repeats=5)
        rates[rows] = 2 * rows * k * m / seconds
        print(f"{rows:5,} row{'s' if rows > 1 else ' '} × ({k:,} × {m:,})   {seconds * 1e3:8.3f} ms   "
              f"{human(rates[rows], 'FLOP/s')}")
    many, one = rates.values()
    print(f"The single row runs at {one / many:.1%} of the speed.")


# The roofline --------------------------------------------------------------------------------------
@show.style()
def first_roof(attainable: Attainable, bound: Bound, name: str = "H200") -> None:
    """The learner's attainable on one data sheet, with products of 1, 64 and 4096 rows."""
    this = chip(name)
    fig, ax = show.canvas(height=3.4)
    _roof(ax, attainable, this.peak, this.bandwidth, show.BLUE, "what your attainable allows")
    words = []
    for rows, marker, colour in ((1, "o", show.VERMILION), (64, "s", show.ORANGE), (4096, "^", show.GREEN)):
        intensity = 2 * rows * WIDTH**2 / (2 * (2 * rows * WIDTH + WIDTH**2))
        rate = float(attainable(intensity, this.peak, this.bandwidth))
        limit = bound(intensity, this.peak, this.bandwidth)
        ax.plot(intensity, rate, marker, color=colour, markersize=10, linestyle="none")
        right = intensity < this.ridge
        ax.annotate(f"{rows:,} row{'s' if rows > 1 else ''}: {limit}", (intensity, rate), textcoords="offset points",
                    xytext=(9 if right else -4, -17), ha="left" if right else "center")
        words.append(f"{rows:,} rows, {_plain(intensity)} FLOP/byte, {human(rate, 'FLOP/s')}, {limit}")
    ax.axvline(this.ridge, color=show.GREY, linestyle=":", linewidth=1.5)
    ax.annotate(f"ridge {this.ridge:.0f}", (this.ridge, this.peak / 2500), xytext=(-6, 0), ha="right",
                textcoords="offset points", color=show.GREY)
    _log_axes(ax, this.peak)
    ax.set_title(f"Rows times a {WIDTH:,} × {WIDTH:,} weight on the roofline of an {name}, 16 bits")
    show.figure(fig, f"Roofline of an {name}: a slope of {human(this.bandwidth, 'B/s')} up to the ridge at "
                     f"{this.ridge:.0f} FLOP per byte, flat at {human(this.peak, 'FLOP/s')} after it. "
                     + "; ".join(words) + ".")


def _roof(ax: Any, attainable: Attainable, peak: float, bandwidth: float, colour: str, label: str,
          linestyle: str = "-") -> None:
    x = torch.logspace(-2, 4, 241, dtype=torch.float64)
    ax.plot(x, attainable(x, peak, bandwidth), color=colour, linewidth=2.5, linestyle=linestyle, label=label)


def _log_axes(ax: Any, peak: float) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlim(0.1, 10_000)
    ax.set_ylim(peak / 4000, peak * 2.5)
    ax.set_xlabel("arithmetic intensity, FLOP per byte")
    ax.set_ylabel("FLOP/s")
    ax.yaxis.set_major_formatter(lambda value, _: human(value, "").strip())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    ax.minorticks_off()                      # they take half of the time of drawing
    ax.grid(True, which="major", color=show.PALE, linewidth=0.8)
    ax.set_axisbelow(True)


def layer_counts(count_matmul: Count, count_attention: Count, B: int, N: int, D: int, size: int
                 ) -> tuple[tuple[str, int, int], ...]:
    """(name, flops, bytes) of six pieces of a model layer: batch B, N tokens of context, head size D."""
    rows = B * N
    return (
        ("attention, naive", *count_attention(B, HEADS, KV_HEADS, N, N, D, size, fused=False)),
        ("attention, fused", *count_attention(B, HEADS, KV_HEADS, N, N, D, size)),
        ("attention, one new token", *count_attention(B, HEADS, KV_HEADS, 1, N, D, size)),
        ("weights, whole prompt", *count_matmul(rows, WIDTH, WIDTH, size)),
        ("weights, one new token", *count_matmul(B, WIDTH, WIDTH, size)),
        ("LayerNorm", LAYER_NORM_FLOPS * rows * WIDTH, (2 * rows + 2) * WIDTH * size),
    )


def explore(attainable: Attainable, bound: Bound, count_matmul: Count, count_attention: Count,
            mine: MeasuredMachine | None = None) -> None:
    """The roofline with controls: batch, context, head size, bits and chip; every dot is the learner's own count."""
    here = (f"this machine: {mine.name}",) if mine is not None else ()

    def update(log_n: int, D: int, B: int, bits: int, on: str) -> None:
        counts = layer_counts(count_matmul, count_attention, B, 2**log_n, D, bits // 8)
        peak, bandwidth, sheet = _limits(on, bits, mine)
        _draw_layer(attainable, bound, counts, peak, bandwidth, sheet if bits == 16 else None,
                    f"{on.removeprefix('this machine: ')}, {bits} bits: N {2**log_n:,}, D {D}, batch {B}")

    show.controls(
        update, on=show.choice((*here, *(c.name for c in CHIPS)), here[0] if here else "H200", label="machine"),
        bits=show.choice((16, 32), 16, label="bits a number"), D=show.choice((64, 128, 256), 128, label="head size D"),
        log_n=show.slider(5, 14, 12, label="context N = 2^"), B=show.slider(1, 256, 8, label="batch"))


def _limits(on: str, bits: int, mine: MeasuredMachine | None) -> tuple[float, float, Chip | None]:
    """(peak, bandwidth, the data sheet if it is one)."""
    if mine is not None and on.startswith("this machine"):
        return mine.peaks[mine.narrow if bits == 16 else "float32"], mine.bandwidth, None
    sheet = chip(on)
    return (sheet.peak if bits == 16 else sheet.peak_fp32), sheet.bandwidth, sheet


@show.style()
def _draw_layer(attainable: Attainable, bound: Bound, counts: Sequence[tuple[str, int, int]], peak: float,
                bandwidth: float, sheet: Chip | None, title: str) -> None:
    fig, ax = show.canvas(height=4.4)
    _roof(ax, attainable, peak, bandwidth, show.INK, "")
    if sheet is not None and sheet.triton_peak < sheet.peak:
        _roof(ax, attainable, sheet.triton_peak, bandwidth, show.GREY, "", "--")
        ax.annotate("Triton's roof: no tensor cores below sm_80", (0.12, sheet.triton_peak), xytext=(0, 4),
                    textcoords="offset points", color=show.GREY, fontsize=10)
    words, handles = [], []
    for (name, flops, size), marker, colour in zip(counts, show.MARKERS, show.CYCLE, strict=True):
        intensity = flops / size
        rate, limit = float(attainable(intensity, peak, bandwidth)), bound(intensity, peak, bandwidth)
        label = f"{name}: {_plain(intensity)}, {limit}"
        ax.vlines(intensity, peak / 4000, rate, color=colour, linewidth=1, linestyle=":")
        handles += ax.plot(intensity, rate, marker, color=colour, markersize=10, linestyle="none", label=label,
                           markeredgecolor="white")
        words.append(f"{name} at {_plain(intensity)} FLOP per byte, {human(rate, 'FLOP/s')}, {limit}-bound")
    ridge = peak / bandwidth
    ax.annotate(f"ridge: {ridge:.0f} FLOP/byte", (ridge, peak), xytext=(0, 7), textcoords="offset points", ha="center")
    _log_axes(ax, peak)
    ax.set_title(title)
    fig.set_layout_engine("none")            # a fixed layout draws faster under a moving slider
    ax.set_position((0.1, 0.34, 0.86, 0.59))
    fig.legend(handles=handles, loc="lower center", ncols=2, title="FLOP per byte, and what limits it")
    show.figure(fig, f"Roofline, {title}: ridge at {ridge:.0f} FLOP per byte under {human(peak, 'FLOP/s')}. "
                     + "; ".join(words) + ".")


# Put right -----------------------------------------------------------------------------------------
A100_L2 = 5120 * 1.41e9     # bytes per clock, times the boost clock: NVIDIA A100 white paper, "A100 L2 cache"


@show.style()
def hierarchy() -> None:
    """Bandwidth of each level, the whole chip together: registers and shared memory counted, L2 as noted, memory."""
    from efflab.chapters.roofline.measured import H200

    fig, ax = show.canvas(height=3.3)
    levels = ("registers", "shared memory", "L2 cache", "memory (HBM)")
    words = []
    for shift, name, l2, colour, hatch in ((0.19, "A100 80 GB", A100_L2, show.SKY, ""),
                                           (-0.19, "H200", max(rate for _, rate in H200.curve), show.ORANGE, "//")):
        this = chip(name)
        rates = (this.register_bandwidth, this.shared_bandwidth, l2, this.bandwidth)
        bars = ax.barh([3 - i + shift for i in range(4)], rates, height=0.36, color=colour, hatch=hatch,
                       edgecolor=show.INK, label=name)
        ax.bar_label(bars, [f"{rate / 1e12:.3g} TB/s" for rate in rates], padding=4)
        words.append(f"{name}: " + ", ".join(f"{level} {rate / 1e12:.3g} TB/s"
                                             for level, rate in zip(levels, rates, strict=True)))
    ax.set_xscale("log")
    ax.set_xlim(1e12, 3e15)
    ax.set_xticks([1e12, 1e13, 1e14, 1e15], ["1 TB/s", "10", "100", "1,000"])
    ax.set_yticks([3, 2, 1, 0], levels)
    ax.legend(loc="lower right")
    ax.set_title("The whole chip together: no step is a factor of 100")
    show.figure(fig, "Bandwidth by level. " + "; ".join(words) + ".")


def chip_table(bound: Bound, count_attention: Count, N: int = 4096, D: int = 128) -> None:
    """Three forms of attention on every chip, as the learner's bound and count_attention see them."""
    forms = (("naive, prompt", N, False), ("fused, prompt", N, True), ("one new token", 1, True))
    rows = []
    for this in CHIPS:
        verdicts = []
        for _, queries, fused in forms:
            flops, size = count_attention(1, HEADS, KV_HEADS, queries, N, D, 2, fused=fused)
            verdicts.append(bound(flops / size, this.peak, this.bandwidth))
        rows.append((this.name, f"{this.ridge:.0f}", *verdicts))
    show.table(rows, ("chip", "ridge, FLOP/byte", *(name for name, _, _ in forms)),
               caption=f"What limits attention: N = {N:,}, D = {D}, {HEADS} heads on {KV_HEADS}, 16 bits, tensor cores")


def data_sheets() -> None:
    """The numbers behind the pictures, and where they come from."""
    show.table([(c.name, c.arch, f"{c.peak / 1e12:g}", f"{c.peak_fp32 / 1e12:g}", f"{c.bandwidth / 1e9:,.0f}",
                 f"{c.ridge:.0f}", c.source) for c in CHIPS],
               ("chip", "arch", "16-bit, TFLOP/s", "fp32, TFLOP/s", "GB/s", "ridge", "source"))
