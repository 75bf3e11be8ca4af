"""Chapter 01's pictures of time: stopwatches, the staircase, what flatters, predictions beside measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from efflab import show
from efflab.chapters.roofline.drive import FakeDevice
from efflab.chapters.roofline.measure import MeasuredMachine, Stopwatch, human
from efflab.chapters.roofline.operations import Operation, time_operation


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
        if show.in_notebook():
            display(found)
        else:
            print(found)
        return
    x = torch.randn(2**28, device=watch.device)
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
        f"{o.name}: predicted {g:.3g} ms, measured {t:.3g} ms"
        for o, g, t in zip(operations, guesses, times, strict=True)))
