"""A lesson as its author writes it: a MyST text notebook read into cells, each with the line it came from.

Only plain Markdown and ```{code-cell} ipython3 blocks are let through; most notebook front ends show nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from efflab.authoring.errors import AuthoringError, at

TAGS = ("exact", "raises-exception")
_ROLE = re.compile(r"(?<![`\w\\])\{[A-Za-z][\w:+.-]*\}`")


@dataclass(frozen=True)
class Cell:
    """kind: "markdown" or "code". line: where it starts in the lesson's file, from 1. tags: out of TAGS."""

    kind: str
    source: str
    line: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Directive:
    """A code cell that the build fills. kind: "exercise" or "given". names: the definitions it shows, in order.

    exercise: the name of the exercise's function.
    """

    kind: str
    slug: str
    names: tuple[str, ...]
    exercise: str = ""


def read_lesson(text: str, filename: str) -> list[Cell]:
    """The lesson's cells, without front matter. Raises AuthoringError with file and line."""
    from jupytext.myst import MystMetadataParsingError, get_parser, myst_to_notebook

    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for line, problem in _not_plain(get_parser().parse(text + "\n")):
        raise at(filename, line, problem)
    try:
        notebook = myst_to_notebook(text, add_source_map=True)
    except MystMetadataParsingError as error:
        raise AuthoringError(f"{filename}: {error}") from error
    starts = notebook.metadata["source_map"]
    return [_cell(cell, start, filename) for cell, start in zip(notebook.cells, starts, strict=True)]


def _cell(cell, start: int, filename: str) -> Cell:  # type: ignore[no-untyped-def]
    line = start if cell.cell_type == "code" else start + 1
    tags = cell.metadata.get("tags", [])
    if set(cell.metadata) - {"tags"} or not isinstance(tags, list) or set(tags) - set(TAGS):
        raise at(filename, line, f"a cell takes only `:tags: [{', '.join(TAGS)}]` (one or more of these); "
                                 f"got {dict(cell.metadata)}.")
    source = "\n".join(s.rstrip() for s in cell.source.split("\n")) if cell.cell_type == "code" else cell.source
    return Cell(cell.cell_type, source.strip("\n"), line, tuple(tags))


def _not_plain(tokens) -> Iterator[tuple[int, str]]:  # type: ignore[no-untyped-def]
    """(line, what is wrong) for everything that Jupyter's Markdown would show as raw text."""
    depth = 0
    for token in tokens:
        depth += token.nesting
        line = token.map[0] + 1 if token.map else 1
        if token.type == "fence" and token.info.startswith("{code-cell}"):
            if depth != 0:
                yield line, "this code cell stands inside a list or quotation; move it to the left margin."
            if token.info.split() != ["{code-cell}", "ipython3"]:
                yield line, f"write a code cell as ```{{code-cell}} ipython3, not ```{token.info}."
        elif token.type == "fence" and token.info.startswith("{"):
            yield line, f"```{token.info} is a MyST directive, which notebooks do not show; write plain Markdown."
        elif token.type in ("myst_target", "myst_line_comment"):
            yield line, "MyST targets and comments show as raw text in a notebook; write plain Markdown."
        elif token.type == "inline":
            for n, written in enumerate(token.content.split("\n")):
                if written.lstrip().startswith(":::"):
                    yield line + n, "::: is a MyST directive, which notebooks do not show; write plain Markdown."
                if _ROLE.search(written):
                    yield line + n, "MyST roles ({name}`text`) show as raw text in a notebook; write plain Markdown."


def directive(cell: Cell, filename: str) -> Directive | None:
    """What the build should put into this cell, None for a cell to leave as it is.

        # exercise: slug.function                         the function's stub
        # exercise: slug.function = kernel, function      these, in this order
        # given: slug.name, other_name                    definitions that the lesson gives
    """
    if cell.kind != "code" or not re.match(r"#\s*(exercise|given)\s*:", cell.source, re.IGNORECASE):
        return None
    lines = cell.source.split("\n")
    if not all(line.startswith("#") for line in lines):
        raise at(filename, cell.line, "a cell that the build fills holds that one comment and nothing else; "
                                      "put the rest into a cell of its own.")
    if cell.tags:
        raise at(filename, cell.line, "a cell that the build fills takes no tags.")
    text = " ".join(line.lstrip("#").strip() for line in lines)
    found = re.fullmatch(r"(exercise|given):\s*([a-z]\w*)\.(\w+)\s*(.*)", text)
    if found:
        kind, slug, name, rest = found.groups()
        if kind == "exercise" and not rest:
            return Directive("exercise", slug, (name,), name)
        names = tuple(n.strip() for n in rest.lstrip("=,").split(",")) if rest else ()
        if all(n.isidentifier() for n in names):
            if kind == "exercise" and rest.startswith("=") and name in names and len(set(names)) == len(names):
                return Directive("exercise", slug, names, name)
            if kind == "given" and (not rest or rest.startswith(",")):
                return Directive("given", slug, (name, *names))
    raise at(filename, cell.line, f"{text!r} is not understood. Write `# exercise: slug.function`, "
                                  "`# exercise: slug.function = kernel, function` (with the function in the list) "
                                  "or `# given: slug.name, other_name`.")
