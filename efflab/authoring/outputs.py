"""Outputs made fit for a repository: no paths of this machine, no timings, widgets as still pictures, under 1 MB.

A saved widget would need its whole state in the file and still show nothing on most pages. What it showed in its
first state is kept instead.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from efflab.authoring.errors import AuthoringError

MAX_NOTEBOOK, MAX_OUTPUT = 1_000_000, 300_000       # bytes
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# Each starts where a word starts: tried at every letter of a picture in base64, they would take minutes.
_CELL_FILE = re.compile(r"(?<!\S)\S*ipykernel_\d+[/\\]\d+\.py(?::\d+)?")
_PACKAGES = re.compile(r"(?<![^\s\"'(<>])[^\s\"'(<>]*[/\\](?:site|dist)-packages[/\\]")
_WARNING = re.compile(r"^(?:/|[A-Za-z]:\\)\S*[/\\]([^/\\\s]+\.py):\d+: ", re.MULTILINE)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{8,16}\b")
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n)", re.MULTILINE)


def tidy(notebook: Any, *, root: Path, widgets: Mapping[str, Mapping[str, Any]],
         captured: Mapping[str, Sequence[Any]]) -> None:
    """Clean an executed notebook in place.

    widgets: model id -> state. captured: model id of an Output widget -> the outputs that it shows.
    """
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type != "code":
            continue
        still = [s for output in cell.outputs for s in _still(output, widgets, captured)]
        cell.outputs = [_lighter(_without_paths(output, root)) for output in _joined(still)]


def refuse_inexact(notebook: Any, name: str) -> None:
    """Raise AuthoringError for a cell tagged "exact" that shows a picture or a widget: these are never compared."""
    for number, cell in enumerate(notebook.cells, 1):
        if "exact" not in cell.metadata.get("tags", ()):
            continue
        shown = {mime for output in cell.outputs for mime in output.get("data", {})}
        if WIDGET_VIEW in shown or any(mime.startswith("image/") for mime in shown):
            raise AuthoringError(f"{name}: cell {number} is tagged exact and shows a picture or a widget. Only text "
                                 "can be compared: take the tag away, or print the numbers in a cell of their own.")


def refuse_large(notebook: Any, text: str, name: str) -> None:
    """Raise AuthoringError when one output or the whole file is too large, saying which cells make it so."""
    sizes = []
    for number, cell in enumerate(notebook.cells, 1):
        size = max((len(json.dumps(output)) for output in cell.get("outputs", ())), default=0)
        first = cell.source.split("\n")[0][:60]
        sizes.append((size, f"cell {number} ({first}): {size / 1000:,.0f} kB"))
    sizes.sort(reverse=True)
    if sizes and sizes[0][0] > MAX_OUTPUT:
        too_large = "; ".join(what for size, what in sizes if size > MAX_OUTPUT)
        raise AuthoringError(f"{name}: an output may have {MAX_OUTPUT / 1000:,.0f} kB. Too large: {too_large}. "
                             "Make the picture smaller or plainer, or print less.")
    total = len(text.encode("utf-8"))
    if total >= MAX_NOTEBOOK:
        raise AuthoringError(f"{name} would have {total / 1000:,.0f} kB, allowed are {MAX_NOTEBOOK / 1000:,.0f}. "
                             f"The largest outputs: {'; '.join(what for _, what in sizes[:4])}.")


def _still(output: Any, widgets: Mapping[str, Mapping[str, Any]], captured: Mapping[str, Sequence[Any]]) -> list[Any]:
    """The output, a widget replaced by what it shows in its first state."""
    data = output.get("data", {})
    if WIDGET_VIEW not in data:
        return [output]
    models = _tree(data[WIDGET_VIEW]["model_id"], widgets)
    inside = [shown for model in models for shown in captured.get(model, ())]
    if not inside:
        return [{**output, "data": {mime: value for mime, value in data.items() if mime != WIDGET_VIEW}}]
    settings = [text for model in models if (text := _setting(widgets.get(model, {})))]
    line = f"[Widget] {' · '.join(settings)}. Run this cell to change it." if settings else "[Widget]"
    plain = {"output_type": "display_data", "data": {"text/plain": line}, "metadata": {}}
    return [plain, *(still for shown in inside for still in _still(shown, widgets, captured))]


def _tree(model: str, widgets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """This widget and those inside it, in the order in which they are shown."""
    children = widgets.get(model, {}).get("children", ())
    inner = [c.removeprefix("IPY_MODEL_") for c in children if isinstance(c, str)]
    return [model, *(m for child in inner for m in _tree(child, widgets))]


def _setting(state: Mapping[str, Any]) -> str:
    """A control's label and value, "" for what is no control."""
    label = state.get("description") or ""
    value = state.get("value")
    options, index = state.get("_options_labels"), state.get("index")
    if options and isinstance(index, int):
        value = options[index]
    return f"{label} {value}" if label and isinstance(value, (str, int, float)) else ""


def _joined(outputs: list[Any]) -> list[Any]:
    """Pieces of one stream that follow each other become one."""
    made: list[Any] = []
    for output in outputs:
        last = made[-1] if made else {}
        if output.get("output_type") == last.get("output_type") == "stream" and output["name"] == last["name"]:
            made[-1] = {**last, "text": last["text"] + output["text"]}
        else:
            made.append(output)
    return made


def _lighter(output: Any) -> Any:
    """Without the second copy of a picture that its HTML form holds; alt text and width are in the metadata too."""
    import nbformat

    data = dict(output.get("data", {}))
    if "image/png" in data and "data:image/png;base64," in data.get("text/html", ""):
        del data["text/html"]
    kept = {key: value for key, value in output.items() if key != "transient"}
    return nbformat.from_dict({**kept, "data": data} if data else kept)


def _without_paths(output: Any, root: Path) -> Any:
    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(v) for v in value]
        return clean_text(value, root) if isinstance(value, str) else value

    made = dict(output)
    for key in ("text", "traceback", "evalue"):
        if key in made:
            made[key] = clean(made[key])
    if "data" in made:
        made["data"] = {mime: clean(value) if mime.startswith("text/") else value
                        for mime, value in made["data"].items()}
    return made


def clean_text(text: str, root: Path) -> str:
    """Text without this machine's paths, memory addresses and overwritten progress lines."""
    text = _OVERWRITTEN.sub("", text)
    text = _CELL_FILE.sub("this cell", text)
    text = _PACKAGES.sub("", text)
    for folder, instead in ((f"{root}/", ""), (str(root), "."), (str(Path.home()), "~"),
                            (tempfile.gettempdir(), "/tmp")):
        # Not in the middle of a longer word or path: base64 text holds slashes too.
        text = re.sub(rf"(?<![\w+/=.~-]){re.escape(folder)}(?![\w-])" if not folder.endswith("/")
                      else rf"(?<![\w+/=.~-]){re.escape(folder)}", instead, text)
    text = _WARNING.sub(r"\1: ", text)
    return _ADDRESS.sub("0x…", text)
