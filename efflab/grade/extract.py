"""Definitions out of source text: imports, functions, classes and constants; demos and loops stay behind.

Nothing is run here. A part with a syntax error is lost alone, and its error is kept with the names defined there.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from efflab.checking.observe import STUB_MARK
from efflab.grade.constants import Own, is_constant

_DEFINED_IN_TEXT = re.compile(r"^\s*(?:async\s+)?def\s+(\w+)|^\s*#\s*exercise:?\s+\w+\.(\w+)", re.I | re.M)
_CHUNK_START = re.compile(r"(@|def\s|async\s+def\s|class\s|import\s|from\s)")
_LINE_MAGIC = re.compile(r"^(\s*)(?:[\w.,\s]*=\s*)?(?:%{1,2}[A-Za-z_]|!|\?{1,2}[\w.]+\s*$|[\w.]+\?{1,2}\s*$).*$")
_PYTHON_CELL_MAGICS = ("time", "timeit", "capture", "prun")


@dataclass(frozen=True)
class Broken:
    """A part that does not parse. names: the functions that live there."""

    where: str
    line: int
    message: str
    code: str
    names: frozenset[str]

    def __str__(self) -> str:
        return f"SyntaxError: {self.message} ({self.where}, line {self.line})" + (f": {self.code}" if self.code else "")


@dataclass(frozen=True)
class Statement:
    """One kept statement. line: its first, decorators included. names: what it binds. stub: left unfilled.
    function: it defines one."""

    line: int
    source: str
    names: frozenset[str]
    stub: bool = False
    function: bool = False


@dataclass
class Unit:
    """One text (a file, or a notebook cell) and what is kept of it."""

    filename: str
    text: str
    kept: list[Statement] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)


def unit_of(text: str, filename: str, *, cell: bool = False, before: frozenset[str] = frozenset()) -> Unit:
    """Find the definitions in one text.

    cell: it may hold IPython magics and shell lines, which are dropped. before: functions that earlier texts define.
    """
    where = filename
    if cell:
        text = _without_cell_magic(text)
    tree, error = _parse(text)
    if error is not None and cell:
        text = "\n".join(_LINE_MAGIC.sub(r"\1pass", line) for line in text.split("\n"))
        tree, error = _parse(text)
    unit = Unit(filename, text)
    parts = [(text, tree, error)] if error is None or cell else [(t, *_parse(t)) for t in _chunks(text)]
    for part, part_tree, part_error in parts:
        if part_tree is None:
            unit.broken.append(_broken(part, part_error, where))
            continue
        try:
            unit.kept.extend(list(_kept(part_tree, part, before)))
        except RecursionError:
            unit.broken.append(_broken(part, SyntaxError("too deeply nested", ("", 1, 0, "")), where))
    return unit


def without_erasing_stubs(units: Iterable[Unit]) -> list[str]:
    """Drop every stub that would erase a filled definition before it. Returns a sentence for each."""
    filled: set[str] = set()
    notes = []
    for unit in units:
        kept = []
        for statement in unit.kept:
            if statement.stub and statement.names <= filled:
                (name,) = statement.names
                notes.append(f"{name} is defined again at {unit.filename}, line {statement.line}, and left unfilled "
                             "there; the filled one before it counts.")
                continue
            if not statement.stub:
                filled |= statement.names
            kept.append(statement)
        unit.kept = kept
    return notes


def _parse(text: str) -> tuple[ast.Module | None, SyntaxError | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text), None
    except SyntaxError as error:
        return None, error
    except (ValueError, RecursionError, MemoryError) as error:      # null bytes; nesting too deep to parse
        return None, SyntaxError(str(error) or "too deeply nested", ("", 1, 0, ""))


def _broken(text: str, error: SyntaxError | None, where: str) -> Broken:
    assert error is not None
    line = error.lineno or 1
    lines = text.split("\n")
    code = lines[line - 1].strip()[:120] if 0 < line <= len(lines) else ""
    names = frozenset(a or b for a, b in _DEFINED_IN_TEXT.findall(text))
    return Broken(where, line, error.msg or "invalid syntax", code, names)


def _chunks(text: str) -> Iterator[str]:
    """Top-level pieces of a file, each on its own lines of an otherwise empty text."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines)
              if _CHUNK_START.match(line) and not (i and lines[i - 1].startswith("@"))]
    starts = [0, *[s for s in starts if s]]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield "\n" * start + "\n".join(lines[start:end])


def _without_cell_magic(text: str) -> str:
    """A cell that is no Python (%%bash) becomes empty; %%time and the like lose their first line."""
    stripped = text.lstrip()
    if not stripped.startswith("%%"):
        return text
    word = re.match(r"%%(\w*)", stripped)
    if word is None or word.group(1) not in _PYTHON_CELL_MAGICS:
        return ""
    first = text.index("%%")
    end = text.find("\n", first)
    return "" if end < 0 else "\n" * (text.count("\n", 0, first)) + text[end:]


def _kept(tree: ast.Module, text: str, before: frozenset[str]) -> Iterator[Statement]:
    lines = text.split("\n")
    nodes = list(ast.walk(tree))
    own = Own(before | {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))},
               frozenset(n.name for n in nodes if isinstance(n, ast.ClassDef)))
    for node in tree.body:
        if _is_definition(node, own):
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", ())]])
            source = "\n".join(lines[first - 1:node.end_lineno]) if node.col_offset == 0 and _alone(node, tree) \
                else ast.get_source_segment(text, node) or ""
            yield Statement(first, source, frozenset(_bound(node)), _is_stub(node, lines),
                            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def _alone(node: ast.stmt, tree: ast.Module) -> bool:
    """Whether no other statement shares a line with this one."""
    return sum(1 for other in tree.body if other.lineno <= (node.end_lineno or node.lineno)
               and (other.end_lineno or other.lineno) >= node.lineno) == 1


def _is_definition(node: ast.stmt, own: Own) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Pass():
            return True
        case ast.Assign():
            shouted = all(isinstance(t, ast.Name) and t.id.isupper() for t in node.targets)
            return all(_is_name(t) for t in node.targets) and is_constant(node.value, own, shouted)
        case ast.AnnAssign():
            return _is_name(node.target) and (node.value is None or is_constant(node.value, own, True))
        case ast.If():
            return not _mentions_main(node.test) and is_constant(node.test, own) \
                and all(_is_definition(n, own) for n in [*node.body, *node.orelse])
        case ast.Try():
            inner = [*node.body, *node.orelse, *node.finalbody, *[n for h in node.handlers for n in h.body]]
            return all(_is_definition(n, own) for n in inner)
    return type(node).__name__ == "TypeAlias"


def _is_name(target: ast.expr) -> bool:
    return isinstance(target, ast.Name) or (isinstance(target, (ast.Tuple, ast.List))
                                            and all(_is_name(e) for e in target.elts))


def _mentions_main(test: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(test))


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from ((a.asname or a.name.split(".")[0]) for a in node.names)
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
        case ast.If() | ast.Try():
            for child in ast.iter_child_nodes(node):
                inner = child.body if isinstance(child, ast.ExceptHandler) else [child]
                for statement in inner:
                    if isinstance(statement, ast.stmt):
                        yield from _bound(statement)


def _is_stub(node: ast.stmt, lines: list[str]) -> bool:
    """A function that still holds the stub's mark, or holds nothing but a docstring, pass or an ellipsis."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Raise, ast.Pass)) \
                and any(STUB_MARK in line for line in lines[inner.lineno - 1:inner.end_lineno]):
            return True
    body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    return all(isinstance(n, ast.Pass) for n in body) or (
        len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0]))
