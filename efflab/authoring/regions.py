"""A solutions module as learners may see it: its definitions, with the answers in them or cut out.

    # BEGIN SOLUTION          each marker alone on its line, indented like the statements between them,
    ...                       inside a function, after its docstring
    # END SOLUTION

A region becomes `raise NotImplementedError("NAME: your code goes here")`, in a @triton.jit function
`pass  # your code goes here`. Marker lines show nowhere. The text is read, never run.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from efflab.authoring.errors import AuthoringError, at

BEGIN, END = "# BEGIN SOLUTION", "# END SOLUTION"
_NEARLY = re.compile(r"#+\s*(begin|end)[\s_-]*solution\b", re.IGNORECASE)
_Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Region:
    """Lines first … last (from 1) hold the markers; what lies between is the answer. stub replaces all of them."""

    first: int
    last: int
    stub: str


@dataclass(frozen=True)
class Definition:
    """One name at the top level. Lines first … last, from the comment block and decorators above it to its end."""

    name: str
    first: int
    last: int
    node: ast.stmt


class Solution:
    """A parsed solutions module. filename stands in the errors. Raises AuthoringError with file and line."""

    def __init__(self, text: str, filename: str) -> None:
        self.filename = filename
        text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self.lines = [line.rstrip() if not line.strip() else line for line in text.split("\n")]
        try:
            self.tree = ast.parse(text, filename)
        except SyntaxError as error:
            raise at(filename, error.lineno or 1, f"this is not Python: {error.msg}.") from error
        self.regions = tuple(_regions(text, self.tree, filename))
        for name, definition in self.definitions.items():
            if self._regions_in(definition):
                self._parses(self.stub(name), definition)

    @classmethod
    def read(cls, path: Path, shown_as: str | None = None) -> Solution:
        """Parse the file. shown_as: the name that errors give, such as its path in the repository."""
        return cls(path.read_text(encoding="utf-8"), shown_as or str(path))

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Functions, classes and constants at the top level, by name, in order."""
        found: dict[str, Definition] = {}
        for node in self.tree.body:
            for name in _names_of(node):
                if name in found and isinstance(node, (*_Function, ast.ClassDef)):
                    raise at(self.filename, node.lineno, f"{name} is defined a second time (first in line "
                                                         f"{found[name].node.lineno}); learners see only one of them.")
                found.setdefault(name, Definition(name, self._first_line(node), node.end_lineno or node.lineno, node))
        return {name: self._with_last_marker(d) for name, d in found.items()}

    def full(self, name: str) -> str:
        """The source of one definition, answers in it, markers not."""
        definition = self._known(name)
        markers = {n for r in self.regions for n in (r.first, r.last)}
        kept = [line for n, line in self._numbered(definition.first, definition.last) if n not in markers]
        return "\n".join(kept).rstrip()

    def stub(self, name: str) -> str:
        """The source of one definition with the answers cut out."""
        definition = self._known(name)
        return "\n".join(self._cut_lines(definition.first, definition.last)).rstrip()

    def has_region(self, name: str) -> bool:
        return bool(self._regions_in(self._known(name)))

    def cut(self) -> str:
        """The whole module with the answers cut out."""
        return "\n".join(self._cut_lines(1, len(self.lines))).rstrip() + "\n"

    def answer(self, name: str) -> str:
        """The answer to an exercise: the kernels that it launches, then the function itself."""
        return "\n\n\n".join(self.full(n) for n in (*self.kernels_of(name), name))

    def kernels_of(self, name: str) -> tuple[str, ...]:
        """The @triton.jit functions with an answer in them that `name` uses, directly or through each other."""
        found: list[str] = []
        waiting = [name]
        while waiting:
            used = {n.id for n in ast.walk(self._known(waiting.pop()).node) if isinstance(n, ast.Name)}
            new = [d for d in self.definitions if d in used and d != name and d not in found
                   and _is_jit(self.definitions[d].node) and self.has_region(d)]
            found += new
            waiting += new
        return tuple(d for d in self.definitions if d in found)

    def _known(self, name: str) -> Definition:
        if name not in self.definitions:
            raise AuthoringError(f"{self.filename} defines no {name!r} at its top level. "
                                 f"It defines: {', '.join(self.definitions) or 'nothing'}.")
        return self.definitions[name]

    def _first_line(self, node: ast.stmt) -> int:
        """With decorators and the comment lines directly above."""
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        while first > 1 and self.lines[first - 2].startswith("#") and not self._is_first_in_file(first - 1):
            first -= 1
        return first

    def _is_first_in_file(self, line: int) -> bool:
        return line == 1 and self.lines[0].startswith("#!")

    def _with_last_marker(self, d: Definition) -> Definition:
        """A closing marker after the last statement still belongs to the function."""
        last = max([d.last, *(r.last for r in self.regions if d.first <= r.first <= d.last)])
        return Definition(d.name, d.first, last, d.node)

    def _regions_in(self, d: Definition) -> list[Region]:
        return [r for r in self.regions if d.first <= r.first <= d.last]

    def _numbered(self, first: int, last: int) -> Iterator[tuple[int, str]]:
        return ((n, self.lines[n - 1]) for n in range(first, last + 1))

    def _cut_lines(self, first: int, last: int) -> Iterator[str]:
        inside = {n: r for r in self.regions for n in range(r.first, r.last + 1)}
        for n, line in self._numbered(first, last):
            if n not in inside:
                yield line
            elif n == inside[n].first:
                yield inside[n].stub

    def _parses(self, stub: str, d: Definition) -> None:
        try:
            ast.parse(stub)
        except SyntaxError as error:
            raise at(self.filename, d.first, f"the stub of {d.name} would not be Python ({error.msg}); "
                                             "move its markers so that whole statements lie between them.") from error


def answer(slug: str, name: str) -> str:
    """The course's answer to one exercise, as text. Raises UnknownChapter, AuthoringError."""
    from efflab import course

    module = course.solution_module(slug)
    return Solution.read(Path(str(module.__file__)), f"solutions/{course.chapter(slug).slug}.py").answer(name)


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (*_Function, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def _is_jit(node: ast.AST) -> bool:
    """Decorated by triton.jit, jit, or one of these called; under other decorators too."""
    for decorator in getattr(node, "decorator_list", ()):
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")) == "jit":
            return True
    return False


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
        yield _region(tree, opened, line, column, filename)
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


def _region(tree: ast.Module, first: int, last: int, column: int, filename: str) -> Region:
    """The region between these marker lines, after a look at the statements that it takes out."""
    place = next((p for p in _blocks(tree, ()) if p.between(first, last)), None)
    if place is None:
        raise at(filename, first, "no whole statement lies between these markers; put them around the statements "
                                  "of the answer.")
    inside = place.between(first, last)
    function = next((a for a in reversed(place.around) if isinstance(a, _Function)), None)
    if function is None:
        raise at(filename, first, "this region is not inside a function; put the markers inside the function "
                                  "that learners write.")
    whole = {id(n) for s in inside for n in ast.walk(s)} | {id(a) for a in place.around}
    torn = [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and id(s) not in whole
            and _start(s) <= last and _end(s) >= first]
    if torn:
        raise at(filename, first, f"the statement in line {_start(torn[0])} reaches across a marker of this region; "
                                  "put the markers around whole statements of one block.")
    if inside[0].col_offset != column:
        raise at(filename, first, f"the markers stand in column {column + 1}, the statements between them in column "
                                  f"{inside[0].col_offset + 1}; indent them alike.")
    path = ".".join(a.name for a in place.around if isinstance(a, (*_Function, ast.ClassDef)))
    if inside[0] is function.body[0] and ast.get_docstring(function) is not None:
        raise at(filename, first, f"the docstring of {path} lies inside the region, so learners would not see what "
                                  f"is asked; put {BEGIN!r} after it.")
    statement = ("pass  # your code goes here" if _is_jit(function)
                 else f'raise NotImplementedError("{path}: your code goes here")')
    return Region(first, last, " " * column + statement)


@dataclass(frozen=True)
class _Block:
    """A list of statements and the statements around it, outermost first."""

    statements: list[ast.stmt]
    around: tuple[ast.stmt, ...]

    def between(self, first: int, last: int) -> list[ast.stmt]:
        return [s for s in self.statements if first < _start(s) and _end(s) < last]


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


def _start(statement: ast.stmt) -> int:
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
