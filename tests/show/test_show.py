"""Pictures, tables, controls and questions: in a notebook, and as plain text where there is none."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest

from efflab import show
from efflab.show import display, questions, widgets

WIDGET = "application/vnd.jupyter.widget-view+json"
Shown = list[dict[str, Any]]


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """As if a Jupyter kernel ran this: what would be displayed is collected."""
    shown: Shown = []
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda data, **rest: shown.append(data))
    return shown


def line_figure() -> Any:
    fig, ax = show.canvas()
    ax.plot([1, 2, 3])
    return fig


def test_a_figure_has_a_png_and_words(notebook: Shown) -> None:
    show.figure(line_figure(), alt='a "line" from 1 to 3')
    data = notebook[0]
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert 'alt="a &quot;line&quot; from 1 to 3"' in data["text/html"]
    assert data["text/plain"] == '[Picture] a "line" from 1 to 3'


def test_a_figure_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="needs alt"):
        show.figure(line_figure(), alt="  ")


def test_a_figure_is_its_words_outside_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    show.figure(line_figure(), alt="a line")
    assert capsys.readouterr().out == "[Picture] a line\n"


def test_a_pyplot_figure_is_closed(notebook: Shown) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    fig, _ = plt.subplots()
    show.figure(fig, alt="empty axes")
    assert fig.number not in plt.get_fignums()


def test_a_png_is_white_and_twice_as_wide_as_on_the_screen() -> None:
    from PIL import Image

    png, width = display.png_of(line_figure())
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert image.width == 2 * width
    assert image.getpixel((0, 0)) == (255, 255, 255)


def test_the_learners_style_comes_back() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    with show.style():
        assert not matplotlib.rcParams["axes.spines.top"]
    assert dict(matplotlib.rcParams) == before


def test_a_table_in_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    show.table([["copy", 1.0, 12345], ["softmax", 3.14159, 7]], ["what", "ms", "bytes"], caption="here")
    assert capsys.readouterr().out.splitlines() == [
        "here", "what       ms   bytes", "-------  ----  ------", "copy        1  12,345", "softmax  3.14       7"]


def test_a_table_in_html_escapes_and_aligns(notebook: Shown) -> None:
    show.table([["<b>", 1]], ["a", "b"])
    assert "&lt;b&gt;" in notebook[0]["text/html"]
    assert "text-align:right" in notebook[0]["text/html"]


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 headers"):
        show.table([[1, 2]], ["a"])


def test_controls_without_a_notebook_show_one_state(capsys: pytest.CaptureFixture[str]) -> None:
    show.controls(lambda n, o, b, t: print(n, o, b, t), n=show.slider(2, 9, 5), o=show.choice(["x", "y"]),
                  b=show.button("again"), t=show.switch(True))
    assert capsys.readouterr().out == "5 x 0 True\n"


def test_controls_say_when_ipywidgets_is_missing(notebook: Shown, monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(widgets, "have_widgets", lambda: False)
    show.controls(lambda n: print(n), n=show.slider(2, 9))
    assert capsys.readouterr().out == f"2\n{widgets.NO_WIDGETS}\n"


def test_controls_draw_at_once_and_again_on_every_change(notebook: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    original = widgets._made
    monkeypatch.setattr(widgets, "_made", lambda spec, name: made.setdefault(name, original(spec, name)))
    calls: list[tuple[int, str]] = []
    show.controls(lambda n, o: calls.append((n, o)), n=show.slider(1, 8, play=500), o=show.choice(["x", "y"]))
    assert calls == [(1, "x")]
    made["n"][1].value = 4
    made["o"][1].value = "y"
    assert calls == [(1, "x"), (4, "x"), (4, "y")]
    assert WIDGET in notebook[-1]


def test_a_button_counts_its_presses(notebook: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    original = widgets._made
    monkeypatch.setattr(widgets, "_made", lambda spec, name: made.setdefault(name, original(spec, name)))
    calls: list[int] = []
    show.controls(lambda seed: calls.append(seed), seed=show.button("Another"))
    made["seed"][0].click()
    assert calls == [0, 1]


def test_a_widgets_first_picture_stands_in_where_there_are_no_widgets(notebook: Shown) -> None:
    show.controls(lambda n: show.figure(line_figure(), alt=f"line {n}"), n=show.slider(1, 3))
    assert notebook[-1]["text/plain"] == "[Picture] line 1"
    assert "image/png" in notebook[-1]


QUIZ = ("Why `x`?", ["this", "that"], 1, ["no, for this", "yes, for that"])


def test_a_quiz_in_plain_text_explains_each_answer(capsys: pytest.CaptureFixture[str]) -> None:
    show.quiz(*QUIZ)
    said = capsys.readouterr().out
    assert "A  no: no, for this" in said
    assert "B  right: yes, for that" in said


def test_a_quiz_answers_when_a_choice_is_picked(notebook: Shown) -> None:
    widget = questions._quiz_widget(*QUIZ)
    _, pick, verdict = widget.children
    pick.value = "A"
    assert "Not this one" in verdict.value
    assert "no, for this" in verdict.value
    pick.value = "B"
    assert "Right" in verdict.value


@pytest.mark.parametrize(("bad", "message"), [
    (("q", ["a"], 0, ["w"]), "two to eight"), (("q", ["a", "b"], 0, ["w"]), "one explanation"),
    (("q", ["a", "b"], 2, ["w", "w"]), "none of the choices"),
    (("q", ["a", "b"], "c", ["w", "w"]), "none of the choices")])
def test_a_quiz_that_does_not_add_up_is_refused(bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        show.quiz(*bad)


def test_a_prediction_is_compared() -> None:
    said = questions._compared("2,000", lambda: 4000.0, "bytes", "Because.")
    assert "You said 2,000" in said
    assert "<b>4,000 bytes</b>" in said
    assert "factor of 2.0" in said
    assert "Because." in said


@pytest.mark.parametrize("entered", ["", "many", "1e"])
def test_a_prediction_that_is_no_number_asks_again(entered: str) -> None:
    assert "Enter a number" in questions._compared(entered, 4.0, "bytes", "Because.")


def test_a_prediction_does_not_measure_before_it_is_asked(notebook: Shown) -> None:
    def never() -> float:
        raise AssertionError("measured too early")

    show.predict("How long?", "ms", never, "So.")
    assert WIDGET in notebook[0]
