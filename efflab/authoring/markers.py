"""Where the answers lie in a solutions module: the marker lines, and the statements between them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from efflab.authoring.errors import at

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NEARLY = re.compile(r"#+\s*(begin|end)[\s_-]*solution\b", re.IGNORECASE)


@dataclass(frozen=True)
class Region:
    """Lines first … last (from 1) hold the markers; what lies between is the answer. stub replaces all of them."""

    first: int
    last: int
    stub: str


def is_jit(node: ast.AST) -> bool:
    """Decorated by triton.jit, jit, or one of these called; under other decorators too."""
    for decorator in getattr(node, "decorator_list", ()):
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) == "jit":
            return True
    return False


def find_regions(text: str, tree: ast.Module, filename: str) -> tuple[Region, ...]:
    """The regions of a module, in order. Raises AuthoringError with file and line."""
    return tuple(_regions(text, tree, filename))


def _regions(text: str, tree: ast.Module, filename: str) -> Iterator[Region]:
    opened: int | None = None
    for line, column, marker in _markers(text, filename):
        if marker == BEGIN and opened is not None:
            raise at(filename, line, f"{BEGIN!r} inside the region that line {opened} opened; close that one first.")
        if marker == END and opened is None:
            raise at(filename, line, f"{END!r} without a {BEGIN!r} before it.")
        if marker == BEGIN:
            opened, opened_column = line, column
            continue
        assert opened is not None
        if column != opened_column:
            raise at(filename, line, f"{END!r} stands in column {column + 1}, its {BEGIN!r} (line {opened}) in "
                                     f"column {opened_column + 1}; indent both like the statements between them.")
        indent = text.split("\n")[opened - 1][:column]
        yield _region(tree, opened, line, indent, filename)
        opened = None
    if opened is not None:
        raise at(filename, opened, f"{BEGIN!r} is never closed; write {END!r} after the answer.")


def _markers(text: str, filename: str) -> Iterator[tuple[int, int, str]]:
    """(line, column, marker) of each marker comment. Text inside strings is no comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or not _NEARLY.match(token.string):
            continue
        line, column = token.start
        if token.string.rstrip() not in (BEGIN, END):
            raise at(filename, line, f"{token.string!r} is nearly a marker; write exactly {BEGIN!r} or {END!r}.")
        if token.line[:column].strip():
            raise at(filename, line, f"{token.string!r} must stand alone on its line.")
        yield line, column, token.string.rstrip()


def _region(tree: ast.Module, first: int, last: int, indent: str, filename: str) -> Region:
    """The region between these marker lines, after a look at the statements that it takes out."""
    place = next((p for p in _blocks(tree, ()) if p.between(first, last)), None)
    if place is None:
        raise at(filename, first, "no whole statement lies between these markers; put them around the statements "
                                  "of the answer.")
    inside = place.between(first, last)
    function = next((a for a in reversed(place.around) if isinstance(a, FUNCTIONS)), None)
    if function is None:
        raise at(filename, first, "this region is not inside a function; put the markers inside the function "
                                  "that learners write.")
    whole = {id(n) for s in inside for n in ast.walk(s)} | {id(a) for a in place.around}
    torn = [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and id(s) not in whole
            and start_of(s) <= last and _end(s) >= first]
    if torn:
        raise at(filename, first, f"the statement in line {start_of(torn[0])} reaches across a marker of this region; "
                                  "put the markers around whole statements of one block.")
    if inside[0].col_offset != len(indent):
        raise at(filename, first, f"the markers stand in column {len(indent) + 1}, the statements between them in "
                                  f"column {inside[0].col_offset + 1}; indent them alike.")
    path = ".".join(a.name for a in place.around if isinstance(a, (*FUNCTIONS, ast.ClassDef)))
    if inside[0] is function.body[0] and ast.get_docstring(function) is not None:
        raise at(filename, first, f"the docstring of {path} lies inside the region, so learners would not see what "
                                  f"is asked; put {BEGIN!r} after it.")
    statement = ("pass  # your code goes here" if is_jit(function)
                 else f'raise NotImplementedError("{path}: your code goes here")')
    return Region(first, last, indent + statement)


@dataclass(frozen=True)
class _Block:
    """A list of statements and the statements around it, outermost first."""

    statements: list[ast.stmt]
    around: tuple[ast.stmt, ...]

    def between(self, first: int, last: int) -> list[ast.stmt]:
        return [s for s in self.statements if first < start_of(s) and _end(s) < last]


def _blocks(node: ast.AST, around: tuple[ast.stmt, ...]) -> Iterator[_Block]:
    """Every block below the node, outer ones before inner ones."""
    for field in ("body", "orelse", "finalbody"):
        statements = getattr(node, field, None)
        if isinstance(statements, list) and statements:
            yield _Block(statements, around)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _blocks(child, (*around, child))
        elif isinstance(child, (ast.ExceptHandler, ast.match_case)):
            yield from _blocks(child, around)


def start_of(statement: ast.stmt) -> int:
    """Its first line, decorators included."""
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
