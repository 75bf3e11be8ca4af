"""Questions: a quiz whose answers explain themselves, and an estimate before the truth. Neither stops "run all"."""

from __future__ import annotations

import html as _html
from collections.abc import Callable, Sequence
from typing import Any

from efflab.show import display
from efflab.show.palette import GREEN, VERMILION
from efflab.show.widgets import have_widgets, show_widget

_LETTERS = "ABCDEFGH"
_TEXT = "font-size:14px;max-width:50em;line-height:1.5"


def quiz(question: str, choices: Sequence[str], answer: int | str, why: Sequence[str]) -> None:
    """Ask one question.

    choices: two to eight answers. answer: the index or the text of the right one.
    why: for each choice one or two sentences that say why it is right or wrong.
    Text may hold `code` in backticks. Without widgets the answers are folded away (HTML) or follow below (plain text).
    """
    right = answer if isinstance(answer, int) else choices.index(answer) if answer in choices else -1
    if not 2 <= len(choices) <= len(_LETTERS):
        raise ValueError(f"show.quiz takes two to eight choices; got {len(choices)}")
    if isinstance(why, str) or len(why) != len(choices):
        raise ValueError(f"show.quiz needs one explanation for each of the {len(choices)} choices; got {len(why)}")
    if not 0 <= right < len(choices):
        raise ValueError(f"show.quiz: answer {answer!r} is none of the choices")
    instead = {"text/html": _folded(question, choices, right, why), "text/plain": _plain(question, choices, right, why)}
    if have_widgets():
        show_widget(_quiz_widget(question, choices, right, why), instead)
    else:
        display.publish(instead)


def _quiz_widget(question: str, choices: Sequence[str], right: int, why: Sequence[str]) -> Any:
    import ipywidgets as w

    text = w.HTML(f'<div style="{_TEXT}"><b>{_inline(question)}</b>{_lettered(choices)}</div>')
    pick = w.ToggleButtons(options=list(_LETTERS[:len(choices)]), value=None, tooltips=list(choices),
                           style=w.ToggleButtonsStyle(button_width="3.2em"))
    verdict = w.HTML(layout=w.Layout(min_height="2em"))

    def tell(change: Any) -> None:
        if change["new"] is not None:
            i = _LETTERS.index(change["new"])
            verdict.value = _verdict(change["new"], i == right, why[i])

    pick.observe(tell, names="value")
    return w.VBox([text, pick, verdict])


def _verdict(letter: str, is_right: bool, why: str) -> str:
    colour, sign = (GREEN, "✓ Right") if is_right else (VERMILION, "✗ Not this one")
    return _boxed(f"<b>{letter}: {sign}.</b> {_inline(why)}", colour)


def _boxed(body: str, colour: str) -> str:
    """A remark beside a coloured line; screen readers announce it."""
    look = f"{_TEXT};border-left:4px solid {colour};padding-left:10px"
    return f'<div role="status" style="{look}">{body}</div>'


def _lettered(choices: Sequence[str]) -> str:
    rows = "".join(f'<div style="display:flex;margin:3px 0"><b style="min-width:1.8em">{letter}</b>'
                   f"<span>{_inline(text)}</span></div>" for letter, text in zip(_LETTERS, choices, strict=False))
    return f'<div style="margin:6px 0 4px">{rows}</div>'


def _folded(question: str, choices: Sequence[str], right: int, why: Sequence[str]) -> str:
    answers = "".join(f"<li><b>{letter}{' (right)' if i == right else ''}</b> {_inline(why[i])}</li>"
                      for i, letter in enumerate(_LETTERS[:len(choices)]))
    folded = f"<details><summary>Answer</summary><ul>{answers}</ul></details>"
    return f"<b>{_inline(question)}</b>{_lettered(choices)}{folded}"


def _plain(question: str, choices: Sequence[str], right: int, why: Sequence[str]) -> str:
    asked = [f"  {letter}  {text}" for letter, text in zip(_LETTERS, choices, strict=False)]
    told = [f"  {_LETTERS[i]}  {'right' if i == right else 'no'}: {text}" for i, text in enumerate(why)]
    return "\n".join([question, *asked, "Answer:", *told])


def _inline(text: str) -> str:
    """HTML of a line of text with `code`."""
    parts = _html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def predict(question: str, unit: str, answer: float | Callable[[], float], explain: str) -> None:
    """Ask for an estimate; when one is given, show it beside the truth.

    answer: the truth in `unit`, or a function that finds it (a measurement) when it is asked for.
    explain: why it is so, in one to three sentences.
    """
    heading = f"<b>Predict.</b> {_inline(question)}"
    instead = {"text/html": heading, "text/plain": f"Predict. {question}" + f" [{unit}]" * bool(unit)}
    if not callable(answer):
        truth = f"{_number(answer)} {unit}".strip() + "."
        instead["text/html"] += f"<details><summary>Answer</summary>{truth} {_inline(explain)}</details>"
        instead["text/plain"] += f"\nAnswer: {truth} {explain}"
    if not have_widgets():
        display.publish(instead)
        return
    import ipywidgets as w

    field = w.Text(placeholder="your estimate", layout=w.Layout(width="150px"), continuous_update=False)
    commit = w.Button(description="Compare", layout=w.Layout(width="auto"))
    verdict = w.HTML(layout=w.Layout(min_height="2em"))

    def compare(_event: Any) -> None:
        verdict.value = _compared(field.value, answer, unit, explain)

    commit.on_click(compare)
    field.observe(compare, names="value")
    row = w.HBox([field, w.HTML(_inline(unit)), commit], layout=w.Layout(align_items="center"))
    show_widget(w.VBox([w.HTML(f'<div style="{_TEXT}">{heading}</div>'), row, verdict]), instead)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _compared(entered: str, answer: float | Callable[[], float], unit: str, explain: str) -> str:
    """What to say to one estimate, as HTML."""
    try:
        guess = float(entered.replace(",", "").replace("%", "").replace("×", "").strip())
    except ValueError:
        return "Enter a number first: a rough one is fine."
    value = answer() if callable(answer) else answer
    truth = f"{_number(value)} {_inline(unit)}".strip()
    said = f"You said {_number(guess)}; it is <b>{truth}</b>{_distance(guess, value)}."
    return _boxed(f"{said} {_inline(explain)}", GREEN)


def _distance(guess: float, value: float) -> str:
    if guess * value <= 0:
        return ""
    factor = max(guess / value, value / guess)
    return " (spot on)" if factor < 1.05 else f" (off by a factor of {factor:.1f})" if factor < 100 else " (far off)"
