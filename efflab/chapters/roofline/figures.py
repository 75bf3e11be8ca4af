"""Chapter 01's pictures and widgets, most of them drawn by the learner's own functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from efflab import show
from efflab.chapters.roofline.chips import CHIPS, Chip, chip
from efflab.chapters.roofline.drive import FakeDevice
from efflab.chapters.roofline.measure import MeasuredMachine, Stopwatch
from efflab.chapters.roofline.operations import LAYER_NORM_FLOPS, Count, Operation, time_operation

Attainable = Callable[[Any, float, float], Any]
Bound = Callable[[float, float, float], str]
HEADS, KV_HEADS, WIDTH = 32, 8, 4096        # of the model whose layers the roofline shows


def human(value: float, unit: str) -> str:
    """1.2e12, "FLOP/s" -> "1.2 TFLOP/s"."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.3g} {unit}"


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
        seconds = watch.seconds(lambda x=x, out=out: torch.mm(x, weight, out=out), repeats=5)
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
        words.append(f"{rows} rows, {intensity:.3g} FLOP/byte, {human(rate, 'FLOP/s')}, {limit}")
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
        words.append(f"{name} at {intensity:.3g} FLOP per byte, {human(rate, 'FLOP/s')}, {limit}-bound")
    ridge = peak / bandwidth
    ax.annotate(f"ridge: {ridge:.0f} FLOP/byte", (ridge, peak), xytext=(0, 7), textcoords="offset points", ha="center")
    _log_axes(ax, peak)
    ax.set_title(title)
    fig.legend(handles=handles, loc="outside lower center", ncols=2, title="FLOP per byte, and what limits it")
    show.figure(fig, f"Roofline, {title}: ridge at {ridge:.0f} FLOP per byte under {human(peak, 'FLOP/s')}. "
                     + "; ".join(words) + ".")


# The stopwatch -------------------------------------------------------------------------------------
@show.style()
def timeline(median_time: Callable[..., float], repeats: int = 2) -> None:
    """What a stopwatch reads on a device that works on its own: host above, device below, readings as lines."""
    unit = 2.0**-20
    device = FakeDevice(cold=[700 * unit, 900 * unit, 800 * unit], warm=[400 * unit, 450 * unit, 420 * unit],
                        flush_takes=1000 * unit, first=1500 * unit, pending=300 * unit)
    seconds = median_time(device.run, clock=device.clock, synchronize=device.synchronize, warmup=1, repeats=repeats,
                          flush=device.flush)
    fig, ax = show.canvas(height=2.7)
    ax.barh(0, device.pending, height=0.5, color=show.PALE, edgecolor=show.INK)
    ax.text(0, -0.42, "earlier work", va="top", fontsize=9)
    cold = False
    for what, before, after, start, end in device.log:
        if what == "synchronize" and after > before:
            ax.barh(1, after - before, left=before, height=0.5, color="white", edgecolor=show.GREY, hatch="....")
        elif what in ("run", "flush"):
            colour, hatch = (show.SKY, "") if what == "run" else (show.ORANGE, "//")
            ax.barh(0, end - start, left=start, height=0.5, color=colour, edgecolor=show.INK, hatch=hatch)
            label = what if what == "flush" or cold else "first run"
            ax.text((start + end) / 2, -0.42, label, ha="center", va="top", fontsize=9)
            cold = what == "flush"
    ax.set_yticks([1, 0], ["host\n(dots: waits)", "device"])
    ax.set_ylim(-0.85, 2.1)
    end = max(device.host, device.free_at)
    ax.set_xlim(-0.02 * end, end * 1.02)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value * 1e3:.1f}")
    _spans(ax, [entry[1] for entry in device.log if entry[0] == "clock"])
    ax.set_xlabel("milliseconds")
    name = getattr(median_time, "__name__", "the stopwatch")
    ax.set_title(f"{name} returns {seconds * 1e3:.3f} ms; a cold run takes 0.67 to 0.86 ms")
    show.figure(fig, f"Timeline of host and device. {name} returned {seconds * 1e3:.3f} ms. Timed spans in ms: "
                     + ", ".join(f"{a * 1e3:.2f} to {b * 1e3:.2f}" for a, b in _pairs(device.log)) + ".")


def _pairs(log: Sequence[tuple[str, float, float, float, float]]) -> list[tuple[float, float]]:
    readings = [entry[1] for entry in log if entry[0] == "clock"]
    return list(zip(readings[::2], readings[1::2], strict=False))


def _spans(ax: Any, readings: Sequence[float]) -> None:
    for start, end in zip(readings[::2], readings[1::2], strict=False):
        ax.axvspan(start, end, ymax=0.76, color=show.VERMILION, alpha=0.15)
        for edge in (start, end):
            ax.axvline(edge, ymax=0.76, color=show.VERMILION, linewidth=1.5)
        ax.text((start + end) / 2, 1.45, f"timed\n{(end - start) * 1e3:.3f} ms", va="bottom", fontsize=9,
                color=show.VERMILION, ha="center" if start > 0.05 * ax.get_xlim()[1] else "left")


def hasty(hasty_time: Callable[..., float]) -> None:
    """One large product on this machine's GPU, timed with and without waiting."""
    from solutions.roofline import median_time

    watch = Stopwatch(median_time)
    if not watch.on_gpu:
        print("No GPU here: a CPU call returns when its work is done, so this mistake does not show.\n"
              "On an H200 one 8192³ bfloat16 product read 39 µs without waiting and 1,450 µs with it.")
        return
    x = torch.randn(8192, 8192, device=watch.device, dtype=torch.float16)
    for name, stopwatch in (("without waiting", hasty_time), ("with waiting", median_time)):
        seconds = Stopwatch(stopwatch).seconds(lambda: torch.mm(x, x), cold=False)
        print(f"8192³ float16 product {name:<16} {seconds * 1e6:10,.0f} µs   "
              f"{human(2 * 8192**3 / seconds, 'FLOP/s')}")
        torch.cuda.synchronize()


# The staircase -------------------------------------------------------------------------------------
@show.style()
def staircase(mine: MeasuredMachine, other: MeasuredMachine | None = None) -> None:
    """Copy bandwidth against the bytes that a copy touches."""
    fig, ax = show.canvas(height=3.8)
    drawn = [(mine, show.BLUE, "o-")] + ([(other, show.GREY, "s--")] if other is not None else [])
    for machine, colour, line in drawn:
        sizes, rates = zip(*machine.curve, strict=True)
        ax.plot(sizes, rates, line, color=colour, markersize=5, label=machine.name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    lowest = min(rate for machine, _, _ in drawn for _, rate in machine.curve)
    ax.set_ylim(lowest / 2, max(rate for machine, _, _ in drawn for _, rate in machine.curve) * 2)
    for name, size in mine.caches:
        ax.axvline(size, color=show.BLUE, linewidth=1, linestyle=":")
        ax.annotate(f"{name} ", (size, lowest / 2), xytext=(-3, 5), textcoords="offset points", ha="right",
                    color=show.BLUE)
    powers = range(13, 31, 3)
    ax.set_xticks([2.0**p for p in powers], [_size(2**p) for p in powers])
    ax.set_xlabel("bytes that one copy touches (source and destination)")
    ax.set_ylabel("bytes/s, read and written")
    ax.set_yticks(ticks := [10.0**p for p in range(math.floor(math.log10(lowest)), 14)
                            if lowest / 2 <= 10.0**p <= ax.get_ylim()[1]], [human(t, "B/s") for t in ticks])
    ax.grid(True, axis="y", color=show.PALE)
    ax.legend(loc="best")
    ax.set_title("Copy bandwidth is a staircase: launch, caches, memory")
    best = max(mine.curve, key=lambda point: point[1])
    show.figure(fig, f"{mine.name}: {human(mine.curve[0][1], 'B/s')} at {_size(mine.curve[0][0])}, at best "
                     f"{human(best[1], 'B/s')} at {_size(best[0])}, and {human(mine.bandwidth, 'B/s')} from memory, at "
                     f"{_size(mine.curve[-1][0])}."
                     + (f" {other.name}: {human(other.bandwidth, 'B/s')} from memory." if other is not None else ""))


def _size(size: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def zeros(median_time: Callable[..., float]) -> None:
    """The same work on zeros and on random numbers."""
    from efflab.chapters.roofline.pitfalls import zeros_and_random

    work, times = zeros_and_random(Stopwatch(median_time))
    for name, seconds in times.items():
        print(f"{work} {name:<16} {seconds * 1e3:8.3f} ms")
    first, last = times.values()
    print(f"On zeros it looks {last / first:.2f} times as fast.")


def copy_speed(scale_copy: Callable[..., torch.Tensor], median_time: Callable[..., float],
               mine: MeasuredMachine) -> None:
    """The learner's kernel beside torch.clone, in bytes per second; without a GPU, what the compiler makes of it."""
    watch = Stopwatch(median_time)
    if not watch.on_gpu:
        from IPython.display import display

        from efflab.gpu import xray

        print("No GPU here, so no speed. What the compiler makes of it for four GPUs:")
        found = xray.show(scale_copy, {"x": torch.empty(2**24, dtype=torch.float16), "alpha": 1.5})
        display(found) if show.in_notebook() else print(found)
        return
    x = torch.randn(2**27, device=watch.device)
    for name, run in (("scale_copy", lambda: scale_copy(x, 1.5)), ("torch.clone", lambda: x.clone())):
        rate = 2 * x.numel() * x.element_size() / watch.seconds(run)
        print(f"{name:<12} {human(rate, 'B/s')}   {rate / mine.bandwidth:.0%} of the staircase's last step")


# Predictions ---------------------------------------------------------------------------------------
@show.style()
def scoreboard(predict_ms: Callable[..., float], median_time: Callable[..., float], mine: MeasuredMachine,
               operations: Sequence[Operation]) -> None:
    """Predicted beside measured for every operation; a hit is within a factor of two."""
    guesses = [predict_ms(o.flops, o.bytes, mine.as_dict(o.dtype)) for o in operations]     # before any clock runs
    watch = Stopwatch(median_time)
    times = [time_operation(o, watch) for o in operations]
    off = [math.log2(guess / real) for guess, real in zip(guesses, times, strict=True)]
    hits = [abs(x) <= 1 for x in off]
    show.table([(o.name, f"{g:.4g}", f"{t:.4g}", f"{2**x:.2f}", "hit" if hit else "miss")
                for o, g, t, x, hit in zip(operations, guesses, times, off, hits, strict=True)],
               ("operation", "predicted, ms", "measured, ms", "predicted / measured", "within 2×"))
    fig, ax = show.canvas(height=2.8)
    ax.axvspan(-1, 1, color=show.PALE)
    for y, (x, hit) in enumerate(zip(off, hits, strict=True)):
        ax.plot([0, x], [y, y], color=show.GREY, linewidth=1.5)
        ax.plot(x, y, "o" if hit else "X", color=show.BLUE if hit else show.VERMILION, markersize=10)
    ax.axvline(0, color=show.INK, linewidth=1)
    ax.set_yticks(range(len(operations)), [o.name.split(", ")[0] for o in operations])
    ax.invert_yaxis()
    reach = max(2.2, *(abs(x) + 0.3 for x in off))
    ax.set_xlim(-reach, reach)
    ticks = [t for t in range(-6, 7) if abs(t) <= reach]
    ax.set_xticks(ticks, [f"{2.0**t:g}×" for t in ticks])
    ax.set_xlabel("predicted / measured (shaded: within a factor of two)")
    ax.set_title(f"{sum(hits)} of {len(hits)} within a factor of two, on {mine.name}")
    show.figure(fig, f"{sum(hits)} of {len(hits)} predictions within a factor of two. " + "; ".join(
        f"{o.name}: predicted {g:.3g} ms, measured {t:.3g} ms" for o, g, t in zip(operations, guesses, times, strict=True)))


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
