"""Put a figure, a table or a piece of HTML on the screen: rich in a notebook, plain text elsewhere."""

from __future__ import annotations

import base64
import html as _html
import io
import sys
from collections.abc import Sequence
from typing import Any

_PIXELS_PER_INCH = 100      # on the screen; the PNG has twice as many, for dense screens
_listening: list[list[dict[str, Any]]] = []     # who else wants what is published: see widgets.py


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, so that pictures and widgets have a place to go."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def publish(data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Send one output in several forms; outside a notebook print its plain text."""
    for listener in _listening:
        listener.append(data)
    if in_notebook():
        from IPython.display import display

        display(data, metadata=metadata or {}, raw=True)
    else:
        print(data["text/plain"])


def html(source: str, plain: str) -> None:
    """Show HTML, or `plain` where there is no place for it. The page's own colours apply, so set none but accents."""
    publish({"text/html": source, "text/plain": plain})


def figure(fig: Any, alt: str) -> None:
    """Show a matplotlib figure as PNG and close it.

    alt: what the picture says, in one to three sentences with its numbers; it is all that some readers get.
    """
    if not alt.strip():
        raise ValueError("show.figure needs alt: one to three sentences that say what the picture shows.")
    if not in_notebook():
        publish({"text/plain": f"[Picture] {alt}"})
    else:
        png, width = png_of(fig)
        data = base64.b64encode(png).decode("ascii")
        image = (f'<img alt="{_html.escape(alt, quote=True)}" src="data:image/png;base64,{data}" '
                 f'style="width:{width}px;max-width:100%;height:auto;background:white">')
        publish({"text/html": image, "image/png": data, "text/plain": f"[Picture] {alt}"},
                {"image/png": {"width": width, "alt": alt}})
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(fig)


def png_of(fig: Any) -> tuple[bytes, int]:
    """The figure as PNG of at most 64 colours, a third of the size, and its width on the screen in pixels."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    fig.set_dpi(2 * _PIXELS_PER_INCH)
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    drawn = Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
    white = Image.new("RGB", drawn.size, "white")
    white.paste(drawn, mask=drawn.getchannel("A"))
    out = io.BytesIO()
    white.quantize(64, dither=Image.Dither.NONE).save(out, format="png")
    return out.getvalue(), round(fig.get_size_inches()[0] * _PIXELS_PER_INCH)


def table(rows: Sequence[Sequence[Any]], headers: Sequence[str], caption: str = "") -> None:
    """Show rows under headers. Numbers are set right, words left; floats get three significant digits."""
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"show.table: a row has {len(row)} cells under {len(headers)} headers: {row!r}")
    cells = [[_cell(value) for value in row] for row in rows]
    right = [all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(headers))]
    html(_html_table(cells, headers, right, caption), _plain_table(cells, headers, right, caption))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain_table(cells: list[list[str]], headers: Sequence[str], right: list[bool], caption: str) -> str:
    lines = [list(headers), *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    lines.insert(1, ["-" * w for w in widths])

    def row(line: list[str]) -> str:
        padded = (text.rjust(w) if r else text.ljust(w) for text, w, r in zip(line, widths, right, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join(([caption] if caption else []) + [row(line) for line in lines])


def _html_table(cells: list[list[str]], headers: Sequence[str], right: list[bool], caption: str) -> str:
    def row(tag: str, texts: Sequence[str]) -> str:
        aligned = zip(texts, right, strict=True)
        return "<tr>" + "".join(
            f'<{tag} style="text-align:{"right" if r else "left"};padding:2px 14px 2px 0">{_html.escape(text)}</{tag}>'
            for text, r in aligned) + "</tr>"

    look = "text-align:left;caption-side:top;font-weight:bold"
    title = f'<caption style="{look}">{_html.escape(caption)}</caption>' if caption else ""
    body = "".join(row("td", line) for line in cells)
    return f"<table>{title}<thead>{row('th', headers)}</thead><tbody>{body}</tbody></table>"
