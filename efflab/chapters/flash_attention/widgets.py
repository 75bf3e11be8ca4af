"""Chapter 04's widgets: tiles in FA1's and FA2's order, the causal work of programs, and the learner's own tiles."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from efflab import show
from efflab.checking.observe import observe

TILES, BLOCK, HEAD = 6, 64, 64          # the animated problem: 6 x 6 tiles of 64 rows, D = 64


@dataclass(frozen=True)
class Step:
    """One tile of scores: its row and column, the elements read and written for it, and those moved so far."""

    row: int
    col: int
    read: tuple[str, ...]
    written: tuple[str, ...]
    moved: int


def steps(algorithm: str) -> list[Step]:
    """All tiles in the order of "fa1" (keys outside) or "fa2" (queries outside)."""
    found, moved = [], 0
    for n in range(TILES * TILES):
        outer, inner = divmod(n, TILES)
        row, col = (inner, outer) if algorithm == "fa1" else (outer, inner)
        if algorithm == "fa1":
            read = (*(("k", "v") if inner == 0 else ()), "q", "o", "m, l")
            written: tuple[str, ...] = ("o", "m, l")
        else:
            read = (*(("q",) if inner == 0 else ()), "k", "v")
            written = ("o", "lse") if inner == TILES - 1 else ()
        moved += sum({"m, l": 2 * BLOCK, "lse": BLOCK}.get(name, BLOCK * HEAD) for name in (*read, *written))
        found.append(Step(row, col, read, written, moved))
    return found


def animate_tiles() -> None:
    """Both algorithms side by side, step by step: which tile, what it reads and writes, elements moved so far."""
    orders = {"fa1": steps("fa1"), "fa2": steps("fa2")}

    @show.style()
    def update(step: int) -> None:
        fig, axes = show.canvas(1, 2, height=4.2)
        for ax, (algorithm, order) in zip(axes, orders.items(), strict=True):
            _grid(ax, algorithm, order, step)
        now = {name: order[step - 1] for name, order in orders.items()}
        show.figure(fig, f"After {step} of {TILES * TILES} tiles: " + "; ".join(
            f"{name} is at query tile {s.row}, key tile {s.col}, and has moved {s.moved:,} elements"
            for name, s in now.items()) + ".")

    show.controls(update, step=show.slider(1, TILES * TILES, 9, label="tile", play=400))


def _grid(ax: Any, algorithm: str, order: list[Step], step: int) -> None:
    """The score matrix with k and v above, q and o at the left; blue comes in, vermilion goes out."""
    from matplotlib.patches import Rectangle

    def box(x: float, y: float, face: str, edge: str, text: str = "", hatch: str = "") -> None:
        ax.add_patch(Rectangle((x, y), 0.92, 0.92, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=1.2))
        ax.text(x + 0.46, y + 0.46, text, ha="center", va="center", fontsize=9)

    now = order[step - 1]
    done = {(s.row, s.col): n + 1 for n, s in enumerate(order[:step])}
    for i in range(TILES):
        for j in range(TILES):
            here = (i, j) == (now.row, now.col)
            face = show.ORANGE if here else show.PALE if (i, j) in done else "white"
            box(j, i, face, show.INK if here else show.GREY, str(done.get((i, j), "")))
    for j in range(TILES):
        used = j == now.col
        box(j, -1.5, show.SKY if used and "k" in now.read else "white", show.INK if used else show.GREY, "k, v")
    for i in range(TILES):
        used = i == now.row
        box(-2.6, i, show.SKY if used and "q" in now.read else "white", show.INK if used else show.GREY, "q")
        goes = used and "o" in now.written
        box(-1.5, i, show.VERMILION if goes else "white", show.INK if used else show.GREY, "o", "//" if goes else "")
    total = order[-1].moved
    ax.text(-2.6, TILES + 0.55, f"in:  {', '.join(now.read)}\nout: {', '.join(now.written) or 'nothing'}", va="top",
            fontsize=10, family="monospace")
    ax.barh(TILES + 2.5, (TILES + 2.6) * now.moved / orders_max(), left=-2.6, height=0.5, color=show.BLUE)
    ax.text(-2.6, TILES + 3.4, f"moved {now.moved:,} of {total:,} elements", va="center", fontsize=10)
    ax.set_title({"fa1": "FA1: keys outside, queries inside", "fa2": "FA2: queries outside, keys inside"}[algorithm])
    ax.set(xlim=(-2.8, TILES + 0.1), ylim=(TILES + 3.8, -1.7), aspect="equal")
    ax.axis("off")


def orders_max() -> int:
    """What the heavier of the two moves in all: the full length of both bars."""
    return max(steps(name)[-1].moved for name in ("fa1", "fa2"))


def print_masks(*shapes: tuple[int, int]) -> None:
    """The causal mask of each shape (Nq, Nk): rows are queries, columns keys."""
    for Nq, Nk in shapes:
        print(f"Nq = {Nq}, Nk = {Nk}")
        for i in range(Nq):
            seen = [j <= i + Nk - Nq for j in range(Nk)]
            marks = " ".join("x" if s else "." for s in seen)
            print(f"  query {i}   {marks}{'' if any(seen) else '   sees nothing'}")


def schedule(lengths: list[int], processors: int) -> list[tuple[int, int, int]]:
    """(processor, start, length) of each program: they start in order, each on the processor that is free first."""
    free = [(0, p) for p in range(processors)]
    placed = []
    for length in lengths:
        start, p = heapq.heappop(free)
        placed.append((p, start, length))
        heapq.heappush(free, (start + length, p))
    return placed


def causal_launch(heads: int, processors: int, longest_first: bool, q_tiles: int = 16) -> list[tuple[int, int, int]]:
    """The schedule of a causal launch, head after head; program i of a head has i + 1 tiles of keys."""
    one_head = range(q_tiles, 0, -1) if longest_first else range(1, q_tiles + 1)
    return schedule([*one_head] * heads, processors)


def end_of(heads: int, processors: int, longest_first: bool) -> int:
    """When the last program of a causal launch ends, in tile steps."""
    return max(start + length for _, start, length in causal_launch(heads, processors, longest_first))


def causal_work_map() -> None:
    """When each program of a causal launch runs, first to last or longest first, on a GPU of a few processors."""
    @show.style()
    def update(heads: int, processors: int, longest_first: bool) -> None:
        q_tiles = 16
        placed = causal_launch(heads, processors, longest_first, q_tiles)
        end = max(start + length for _, start, length in placed)
        busy = sum(length for _, _, length in placed) / (end * processors)
        fig, ax = show.canvas(height=3.4)
        for n, (p, start, length) in enumerate(placed):
            shade = 0.25 + 0.7 * length / q_tiles
            ax.barh(p, length, left=start, height=0.85, color=(*_rgb(show.BLUE), shade), edgecolor="white",
                    hatch="//" if n // q_tiles % 2 else "", linewidth=0.8)
            if length >= 3:
                ax.text(start + length / 2, p, str(length), ha="center", va="center", fontsize=8,
                        color="white" if shade > 0.6 else show.INK, bbox=_plate(show.BLUE, shade))
        ax.axvline(end, color=show.VERMILION, linestyle="--")
        ax.set(title=f"Ends after {end} tile steps; processors busy {busy:.0%} of the time", xlabel="tile steps",
               ylabel="processor", yticks=range(processors), xlim=(0, end * 1.02))
        ax.invert_yaxis()
        show.figure(fig, f"{heads} heads of {q_tiles} programs on {processors} processors, "
                    f"{'longest first' if longest_first else 'shortest first'}: the last ends after {end} steps, "
                    f"and processors are busy {busy:.0%} of the time. Numbers are tiles of keys; every second head is "
                    "hatched.")

    show.controls(update, heads=show.slider(1, 6, 2, label="heads"),
                  processors=show.slider(4, 12, 8, label="processors"),
                  longest_first=show.switch(False, label="longest first"))


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _plate(colour: str, shade: float) -> dict[str, Any]:
    """A plain patch behind a number, so that the hatch does not cross it."""
    mixed = tuple(1 - shade * (1 - c) for c in _rgb(colour))
    return {"facecolor": mixed, "edgecolor": "none", "pad": 0.8}


def explore_tiles(tiled_attention: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Run the learner's function at any block sizes: its error against float64, and what it holds in memory."""
    from efflab.chapters.flash_attention import cases, checks

    @show.style()
    def update(N: int, block_q: int, block_k: int, spread: int, causal: bool) -> None:
        inputs = cases.qkv(cases.Draw(3), N=(N, N), D=32, causal=causal)
        inputs["q"] = inputs["q"] * float(spread)
        exact, _ = checks.attention_reference(inputs["q"].double(), inputs["k"].double(), inputs["v"].double(), causal)
        base = (checks.attention_baseline(**inputs)[0].double() - exact).abs().amax(-1).flatten()
        seen = observe(tiled_attention, {**inputs, "block_q": block_q, "block_k": block_k})
        if seen.error is not None:
            print(f"{seen.error.kind}: {seen.error.message}")
            return
        error = (seen.value[0].double() - exact).abs().amax(-1).flatten()
        fig, (left, right) = show.canvas(1, 2, height=3.2, width_ratios=[2.2, 1])
        left.plot(base.clamp(min=1e-8), color=show.GREY, linewidth=1, linestyle=":", label="whole matrix, float32")
        left.plot(error.clamp(min=1e-8), color=show.BLUE, linewidth=1.5, label="your tiles")
        for start in range(block_q, N, block_q):
            left.axvline(start, color=show.PALE, zorder=0)
        left.set(title="Error of o by query", xlabel="query", yscale="log", ylim=(1e-8, None))
        left.legend(loc="lower right")
        sizes = [seen.peak_bytes / 1e3, 4 * N * N / 1e3]
        right.bar(["your tiles", "one N × N"], sizes, color=[show.BLUE, show.VERMILION], hatch=["", "//"])
        for x, size in enumerate(sizes):
            right.text(x, size, f"{size:,.0f} kB", ha="center", va="bottom", fontsize=10)
        right.set(title="Held at once", ylabel="kB", ylim=(0, 1.15 * max(sizes)))
        show.figure(fig, f"N = {N}, tiles of {block_q} × {block_k}: largest error {error.max():.1e} against "
                    f"{base.max():.1e} for the whole matrix in float32; {sizes[0]:,.0f} kB held at once, one N × N "
                    f"matrix has {sizes[1]:,.0f} kB.")

    show.controls(update, N=show.slider(32, 512, 320, step=32, label="N"),
                  block_q=show.choice([1, 16, 32, 64, 128], 64, label="block_q"),
                  block_k=show.choice([1, 16, 32, 64, 128], 32, label="block_k"),
                  spread=show.slider(1, 20, 1, label="size of q"), causal=show.switch(True, label="causal"))
