"""Widgets of chapter 03. Those that take a function run the learner's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch

from efflab import show

NEVER = float("-inf")
Pair = tuple[torch.Tensor, torch.Tensor]


# --- Why the maximum ----------------------------------------------------------------------------------------------

_LOGITS = (1.0, 3.0, 0.5, 2.0, -1.0, 2.5)


def overflow() -> None:
    """Six logits in float16, moved up and down together: softmax with and without the maximum taken off."""
    show.controls(_draw_overflow, shift=show.slider(-30, 30, 0, label="add to every logit", play=250))


@show.style()
def _draw_overflow(shift: int) -> None:
    x = torch.tensor(_LOGITS, dtype=torch.float16) + shift
    e = torch.exp(x)
    without = e / e.sum()
    e_safe = torch.exp(x - x.max())
    fig, axes = show.canvas(1, 3, height=2.7)
    _logit_bars(axes[0], e, "exp(x), float16", show.ORANGE)
    _logit_bars(axes[1], without, "exp(x) / sum", show.VERMILION)
    _logit_bars(axes[2], e_safe / e_safe.sum(), "with x − max", show.BLUE)
    for ax in axes[1:]:
        ax.set_ylim(0, 0.6)
    nans = int(without.isnan().sum())
    state = f"NaN in {nans} of {len(x)}" if nans else "right" if torch.allclose(
        without, e_safe / e_safe.sum(), atol=2e-3) else "coarse: exp(x) is below float16's normal numbers"
    show.figure(fig, alt=f"Six logits plus {shift} in float16: without the maximum the result is {state}; with it the "
                "result does not depend on the shift.")
    print(f"logits {x.tolist()}: without the maximum {state}")


def _logit_bars(ax: Any, values: torch.Tensor, title: str, colour: str) -> None:
    for i, v in enumerate(values.tolist()):
        if v != v or v == float("inf"):
            ax.text(i, 0.04, "NaN" if v != v else "inf", rotation=90, ha="center", va="bottom", color=show.VERMILION,
                    fontweight="bold", transform=ax.get_xaxis_transform())
        else:
            ax.bar(i, v, color=colour, width=0.7)
    ax.set_xticks(range(len(values)))
    ax.set_xlim(-0.6, len(values) - 0.4)
    ax.set_title(title)


# --- One pass, block by block -------------------------------------------------------------------------------------

BLOCK, COLS = 4, 32


def row_of(kind: str) -> torch.Tensor:
    """A row of 32 numbers for the scrubber."""
    x = torch.randn(1, COLS, generator=torch.Generator().manual_seed(5)) * 2
    if kind == "rising":
        return x.sort(-1).values
    if kind == "falling":
        return x.sort(-1, descending=True).values
    if kind == "begins with −inf":
        x[:, :2 * BLOCK] = NEVER
    return x


def scrub(online_stats: Callable[[torch.Tensor, int], Pair]) -> None:
    """Step through a row block by block with the learner's own online_stats."""
    def draw(blocks: int, row: str) -> None:
        _draw_scrub(online_stats, blocks, row)

    show.controls(draw, blocks=show.slider(1, COLS // BLOCK, 1, label="blocks read", play=900),
                  row=show.choice(["random", "rising", "falling", "begins with −inf"], label="row"))


@show.style()
def _draw_scrub(online_stats: Callable[[torch.Tensor, int], Pair], blocks: int, row: str) -> None:
    x = row_of(row)
    seen, before = blocks * BLOCK, (blocks - 1) * BLOCK
    steps = [(NEVER, 0.0)] + [tuple(t.item() for t in online_stats(x[:, :end], BLOCK))
                              for end in range(BLOCK, COLS + 1, BLOCK)]
    (m_old, l_old), (m, l) = steps[blocks - 1], steps[blocks]
    factor = 0.0 if m_old == NEVER else float(torch.exp(torch.tensor(m_old - m)))
    fig, (top, bottom) = show.canvas(2, 1, height=4.6, gridspec_kw={"height_ratios": [3, 1.25]})
    _draw_row(top, x[0], before, seen, m, m_old)
    _draw_sum(bottom, l_old, factor, l)
    bottom.set_xlim(0, 1.5 * max(l for _, l in steps))
    text = (f"block {blocks} of {COLS // BLOCK}:  m {_n(m_old)} → {_n(m)},  rescale factor exp(m_old − m) = "
            f"{factor:.3f},  l = {l_old:.3f} × {factor:.3f} + {l - l_old * factor:.3f} = {l:.3f}")
    show.figure(fig, alt=f"A row of {COLS} numbers ({row}), {text}")
    print(text)


def _n(value: float) -> str:
    return "−inf" if value == NEVER else f"{value:.2f}"


def _draw_row(ax: Any, x: torch.Tensor, before: int, seen: int, m: float, m_old: float) -> None:
    for i, v in enumerate(x.tolist()):
        colour, hatch = (show.GREY, "") if i < before else (show.BLUE, "") if i < seen else (show.PALE, "")
        if v == NEVER:
            ax.text(i, -0.15, "−inf", rotation=90, ha="center", va="top", color=show.INK, fontsize=10)
        else:
            ax.bar(i, v, color=colour, hatch=hatch, width=0.8, edgecolor=show.GREY, linewidth=0.6)
    ax.axhline(0, color=show.INK, linewidth=0.8)
    ax.axvspan(before - 0.5, seen - 0.5, color=show.SKY, alpha=0.18, zorder=0)
    ax.set_ylim(-6.2, 6.8)
    ax.set_xlim(-0.7, COLS + 5)
    if m_old not in (NEVER, m):
        ax.hlines(m_old, -0.5, before - 0.5, color=show.GREY, linestyle="--")
        ax.text(0.2, 5.6, f"dashed: m before, {_n(m_old)}", color=show.GREY, va="center")
    if m != NEVER:
        ax.hlines(m, -0.5, COLS - 0.5, color=show.VERMILION)
    ax.text(COLS - 0.2, m if m != NEVER else -5.4, f"m = {_n(m)}", color=show.VERMILION, va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    ax.set_title("The row. Grey: read and gone; blue: this block, on the chip; pale: to come")
    ax.set_ylabel("x")
    ax.set_xticks(range(0, COLS + 1, BLOCK))


def _draw_sum(ax: Any, l_old: float, factor: float, l: float) -> None:
    kept = l_old * factor
    ax.barh(1, l_old, color=show.PALE, edgecolor=show.GREY, height=0.62)
    ax.barh(0, kept, color=show.GREY, height=0.62)
    ax.barh(0, l - kept, left=kept, color=show.BLUE, hatch="//", edgecolor="white", height=0.62)
    ax.text(l_old, 1, f"  l = {l_old:.2f}", va="center")
    ax.text(l, 0, f"  l = {kept:.2f} kept + {l - kept:.2f} new", va="center")
    ax.set_yticks([0, 1], ["after", "before"])
    ax.set_title(f"The sum, relative to m: its old part is multiplied by {factor:.3f}")


# --- Merging ------------------------------------------------------------------------------------------------------

PIECES = 8
Node = tuple[float, float, Pair]     # x position, height, statistics


def shuffle_trees(merge_stats: Callable[[Pair, Pair], Pair]) -> None:
    """Merge eight pieces in a random tree with the learner's own merge_stats; the button deals another tree."""
    def draw(deal: int) -> None:
        _draw_tree(merge_stats, deal)

    show.controls(draw, deal=show.button("Another tree"))


def leaves() -> list[Pair]:
    """Statistics of eight pieces of a row of 64 numbers; one piece is empty."""
    x = torch.randn(PIECES, 8, generator=torch.Generator().manual_seed(3)) * 2
    m = x.amax(-1)
    l = torch.exp(x - m[:, None]).sum(-1)
    m[5], l[5] = NEVER, 0.0
    return [(m[i], l[i]) for i in range(PIECES)]


@show.style()
def _draw_tree(merge_stats: Callable[[Pair, Pair], Pair], deal: int) -> None:
    fig, ax = show.canvas(height=4.4)
    pick = random.Random(deal)
    order = list(range(PIECES)) if deal == 0 else pick.sample(range(PIECES), PIECES)
    pieces = leaves()
    nodes: list[Node] = [(float(i), 0.0, pieces[piece]) for i, piece in enumerate(order)]
    for node, piece in zip(nodes, order, strict=True):
        _draw_node(ax, node, show.PALE)
        ax.text(node[0], -0.62, f"piece {piece}", ha="center", va="center", fontsize=10)
    while len(nodes) > 1:
        i = pick.randrange(len(nodes) - 1)                   # neighbours, so that no lines cross
        a, b = nodes[i], nodes[i + 1]
        parent = ((a[0] + b[0]) / 2, max(a[1], b[1]) + 1.0, merge_stats(a[2], b[2]))
        for child in (a, b):
            ax.plot([child[0], parent[0]], [child[1], parent[1]], color=show.GREY, linewidth=1.4, zorder=1)
        nodes[i:i + 2] = [parent]
        _draw_node(ax, parent, show.SKY if len(nodes) > 1 else show.YELLOW)
    top, at_once = nodes[0], _at_once()
    ax.set_axis_off()
    ax.set_ylim(-0.85, top[1] + 0.8)
    ax.set_xlim(-0.6, PIECES - 0.4)
    m, l = (t.item() for t in top[2])
    off = abs(l - at_once[1]) / at_once[1]
    ax.set_title("Each box: m above, l below. Yellow, at the root: the whole row")
    text = (f"tree {deal + 1}, {top[1]:.0f} levels: m = {m:.4f}, l = {l:.6f}; at once: "
            f"m = {at_once[0]:.4f}, l = {at_once[1]:.6f}; off by {off:.0e}")
    show.figure(fig, alt=f"A random tree that merges {PIECES} pieces. {text}")
    print(text)


def _at_once() -> tuple[float, float]:
    """In float64, all pieces together, without merge_stats."""
    m = torch.stack([m for m, _ in leaves()]).double()
    l = torch.stack([l for _, l in leaves()]).double()
    return m.max().item(), (l * torch.exp(m - m.max())).sum().item()


def _draw_node(ax: Any, node: Node, colour: str) -> None:
    x, y, (m, l) = node
    ax.text(x, y, f"{_n(m.item())}\n{l.item():.2f}", ha="center", va="center", fontsize=10, zorder=2,
            bbox={"boxstyle": "round,pad=0.3", "facecolor": colour, "edgecolor": show.INK, "linewidth": 0.9})
