"""A solutions module as learners may see it: its definitions, with the answers in them or cut out.

    # BEGIN SOLUTION          each marker alone on its line, indented like the statements between them,
    ...                       inside a function, after its docstring
    # END SOLUTION

A region becomes `raise NotImplementedError("NAME: your code goes here")`, in a @triton.jit function
`pass  # your code goes here`. Marker lines show nowhere. The text is read, never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from efflab.authoring.errors import AuthoringError, at
from efflab.authoring.markers import FUNCTIONS, Region, find_regions, is_jit, start_of


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
        self.lines = text.split("\n")          # not splitlines(), which also splits where Python does not
        try:
            self.tree = ast.parse(text, filename)
        except SyntaxError as error:
            raise at(filename, error.lineno or 1, f"this is not Python: {error.msg}.") from error
        self.regions = find_regions(text, self.tree, filename)
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
                if name in found and isinstance(node, (*FUNCTIONS, ast.ClassDef)):
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
                   and is_jit(self.definitions[d].node) and self.has_region(d)]
            found += new
            waiting += new
        return tuple(d for d in self.definitions if d in found)

    def answer_lines(self, name: str) -> int:
        """How many lines of code learners write for this exercise, its kernels included."""
        definitions = [self._known(n) for n in (*self.kernels_of(name), name)]
        lines = [line for d in definitions for r in self._regions_in(d)
                 for _, line in self._numbered(r.first + 1, r.last - 1)]
        return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))

    def _known(self, name: str) -> Definition:
        if name not in self.definitions:
            raise AuthoringError(f"{self.filename} defines no {name!r} at its top level. "
                                 f"It defines: {', '.join(self.definitions) or 'nothing'}.")
        return self.definitions[name]

    def _first_line(self, node: ast.stmt) -> int:
        """With decorators and the comment lines directly above."""
        first = start_of(node)
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
            compile(stub, self.filename, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise at(self.filename, d.first, f"the stub of {d.name} would not compile ({error.msg}); "
                                             "move its markers.") from error


def answer(slug: str, name: str) -> str:
    """The course's answer to one exercise, as text. Raises UnknownChapter, AuthoringError."""
    from efflab import course

    module = course.solution_module(slug)
    return Solution.read(Path(str(module.__file__)), f"solutions/{course.chapter(slug).slug}.py").answer(name)


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [n.id for target in node.targets for n in ast.walk(target)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []
