"""Sliders, menus, switches and buttons round a function that draws.

    controls(draw, rows=slider(1, 64, label="rows"), order=choice(["left", "tree"]))

calls draw(rows=1, order="left") at once and again on every change; what draw prints or shows appears below.
All of them are worked with the keyboard: Tab to reach, arrow keys to move, Space or Enter to press.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from efflab.show import display

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NO_WIDGETS = ("(ipywidgets is not installed here, so this shows one state. To get the controls: "
              "pip install ipywidgets, then restart the kernel.)")


@dataclass(frozen=True)
class Slider:
    """An int from low to high. play: a button beside it that runs through the values, one each `play` milliseconds."""

    low: int
    high: int
    value: int | None = None
    step: int = 1
    label: str = ""
    play: int = 0

    @property
    def start(self) -> int:
        return self.low if self.value is None else self.value


@dataclass(frozen=True)
class Choice:
    """One of several options, passed on as it is and shown as str(option)."""

    options: tuple[Any, ...]
    value: Any = None
    label: str = ""

    @property
    def start(self) -> Any:
        return self.options[0] if self.value is None else self.value


@dataclass(frozen=True)
class Switch:
    """True or False."""

    value: bool = False
    label: str = ""

    @property
    def start(self) -> bool:
        return self.value


@dataclass(frozen=True)
class Button:
    """The number of times it was pressed, from 0: use it as a seed."""

    label: str

    @property
    def start(self) -> int:
        return 0


Control = Slider | Choice | Switch | Button


def slider(low: int, high: int, value: int | None = None, *, step: int = 1, label: str = "", play: int = 0) -> Slider:
    """An int from low to high."""
    return Slider(low, high, value, step, label, play)


def choice(options: Sequence[Any], value: Any = None, *, label: str = "") -> Choice:
    """One of the options."""
    return Choice(tuple(options), value, label)


def switch(value: bool = False, *, label: str = "") -> Switch:
    """True or False."""
    return Switch(value, label)


def button(label: str) -> Button:
    """How often it was pressed."""
    return Button(label)


def have_widgets() -> bool:
    """Whether there is a notebook to show widgets in and ipywidgets to make them."""
    import importlib.util

    return display.in_notebook() and importlib.util.find_spec("ipywidgets") is not None


def controls(update: Callable[..., None], **widgets: Any) -> None:
    """Show the controls and call update(name=value, …) now and on every change.

    widgets: Slider, Choice, Switch, Button, or any ipywidgets widget with a value.
    Without a notebook or ipywidgets, update is called once with the start values.
    """
    if not have_widgets():
        update(**{name: w.start if hasattr(w, "start") else w.value for name, w in widgets.items()})
        if display.in_notebook():
            print(NO_WIDGETS)
        return
    from ipywidgets import HBox, Layout, Output, VBox

    boxes, sources = [], {}
    for name, spec in widgets.items():
        box, sources[name] = _made(spec, name)
        boxes.append(box)
    out = Output()

    def render(_change: Any = None) -> None:
        with out:
            out.clear_output(wait=True)
            update(**{name: source.value for name, source in sources.items()})

    shown: list[dict[str, Any]] = []
    display._listening.append(shown)
    try:
        render()
    finally:
        display._listening.remove(shown)
    for source in sources.values():
        source.observe(render, names="value")
    show_widget(VBox([HBox(boxes, layout=Layout(flex_flow="row wrap", align_items="center")), out]), _still(shown))


def _still(shown: list[dict[str, Any]]) -> dict[str, Any]:
    """The first state, for readers whose page has no widgets: the first picture, or the text."""
    for data in shown:
        if "image/png" in data:
            return {"image/png": data["image/png"], "text/plain": data["text/plain"]}
    return {"text/plain": "\n".join(data["text/plain"] for data in shown) or "a widget"}


def show_widget(widget: Any, instead: dict[str, Any]) -> None:
    """Show a widget; pages that cannot get `instead`, which must have "text/plain"."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    from IPython.display import display as show

    show({_WIDGET_VIEW: view, **instead}, raw=True)


def _made(spec: Any, name: str) -> tuple[Any, Any]:
    """(the widget to lay out, the widget whose value counts) for one control."""
    import ipywidgets as w

    wide = {"description_width": "initial"}
    if isinstance(spec, Slider):
        made = w.IntSlider(spec.start, spec.low, spec.high, spec.step, description=spec.label or name, style=wide,
                           layout=w.Layout(width="360px"))
        if not spec.play:
            return made, made
        play = w.Play(value=spec.start, min=spec.low, max=spec.high, step=spec.step, interval=spec.play,
                      show_repeat=False)
        w.jslink((play, "value"), (made, "value"))
        return w.HBox([play, made]), made
    if isinstance(spec, Choice):
        made = w.Dropdown(options=[(str(o), o) for o in spec.options], value=spec.start,
                          description=spec.label or name, style=wide, layout=w.Layout(width="auto"))
        return made, made
    if isinstance(spec, Switch):
        made = w.Checkbox(spec.start, description=spec.label or name, indent=False,
                          layout=w.Layout(width="auto", margin="0 12px"))
        return made, made
    if isinstance(spec, Button):
        pressed = w.IntText(0)
        made = w.Button(description=spec.label, layout=w.Layout(width="auto"))
        made.on_click(lambda _: setattr(pressed, "value", pressed.value + 1))
        return made, pressed
    return spec, spec
