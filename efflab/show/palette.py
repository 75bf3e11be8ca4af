"""Colours and style of every picture: dark on white, readable at JupyterLab's default width.

Never colour alone: give a second sign too, a marker, a hatch, a label (MARKERS, HATCHES).

Colours: Okabe and Ito, "Color Universal Design", https://jfly.uni-koeln.de/color/.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
VERMILION = "#D55E00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
YELLOW = "#F0E442"
INK = "#1B1B1B"      # text and lines
GREY = "#767676"     # the lightest grey that is still readable as text on white
PALE = "#ECECEC"     # areas behind text

CYCLE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
MARKERS = ("o", "s", "^", "D", "v", "P")     # one for each colour of CYCLE
HATCHES = ("", "//", "..", "\\\\", "xx", "--")

WIDTH = 7.6          # inches; at 100 pixels an inch it fits beside JupyterLab's file browser

_STYLE: dict[str, Any] = {
    "figure.facecolor": "white", "axes.facecolor": "white", "savefig.facecolor": "white",
    "font.size": 11, "axes.titlesize": 12, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelsize": 11, "xtick.labelsize": 10, "ytick.labelsize": 10, "legend.fontsize": 10, "legend.frameon": False,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 2, "hatch.linewidth": 0.8,
    "figure.constrained_layout.use": True, "mathtext.fontset": "dejavusans",
}


@contextmanager
def style() -> Iterator[None]:
    """The course's matplotlib style, in `with style():` or under `@style()`; the learner's settings come back."""
    import matplotlib
    from cycler import cycler

    settings: Any = {**_STYLE, "axes.prop_cycle": cycler(color=CYCLE)}
    with matplotlib.rc_context(settings):
        yield


def canvas(rows: int = 1, cols: int = 1, *, width: float = WIDTH, height: float = 3.0,
           **subplots: Any) -> tuple[Any, Any]:
    """A new figure of width x height inches and its axes, like plt.subplots.

    pyplot does not know it: nothing else draws it and nothing has to close it.
    Call it under `@style()`, so that text added later has the style too.
    """
    from matplotlib.figure import Figure

    with style():
        fig = Figure(figsize=(width, height), layout="constrained")
        return fig, fig.subplots(rows, cols, **subplots)
