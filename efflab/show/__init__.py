"""Shared pieces for pictures and widgets. Each works in a notebook and, as plain text, anywhere else.

    figure(fig, alt="…")                     a matplotlib figure as PNG, with words for those who do not see it
    canvas(rows, cols, width=…, height=…)    a new styled figure and its axes, unknown to pyplot
    table(rows, headers)                     rows of numbers and words
    controls(update, n=slider(1, 8))         sliders, menus and buttons that draw again on each change
    quiz(question, choices, answer, why)     one question whose answers explain themselves
    predict(question, unit, answer, explain) an estimate first, then the truth

Colours (Okabe-Ito, told apart by colour-blind eyes): BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, YELLOW; INK for
text and lines, GREY for what matters less, PALE for areas behind text.
Nothing here imports matplotlib or ipywidgets before it is needed.
"""

from efflab.show.display import figure, html, in_notebook, table
from efflab.show.palette import (
    BLUE,
    CYCLE,
    GREEN,
    GREY,
    HATCHES,
    INK,
    MARKERS,
    ORANGE,
    PALE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    canvas,
    style,
)
from efflab.show.questions import predict, quiz
from efflab.show.widgets import Button, Choice, Slider, Switch, button, choice, controls, slider, switch

__all__ = ["BLUE", "CYCLE", "GREEN", "GREY", "HATCHES", "INK", "MARKERS", "ORANGE", "PALE", "PURPLE", "SKY",
           "VERMILION", "YELLOW", "Button", "Choice", "Slider", "Switch", "button", "canvas", "choice", "controls",
           "figure", "html", "in_notebook", "predict", "quiz", "slider", "style", "switch", "table"]
