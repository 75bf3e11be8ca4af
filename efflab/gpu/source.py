"""A function's source as a module of its own, so that another process can load and compile it.

A function from a file brings its whole file. A function from a notebook (or a script) brings what it needs of
it: the functions, classes and kernels it uses, and theirs in turn, the imports they name, and plain constants.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import symtable
import sys
import textwrap
from collections.abc import Iterable
from types import ModuleType
from typing import Any


class NoSource(ValueError):
    """The source text of this function cannot be found; the message says why and what to do."""


def source_of(function: Any) -> str:
    """Text of a module that defines `function` and all it needs. Raises NoSource."""
    inner = unwrap(function)
    if not inspect.isfunction(inner):
        raise NoSource(f"source_of takes a Python function or a Triton kernel; got {type(function).__name__}")
    if inner.__module__ != "__main__":
        lines = linecache.getlines(inner.__code__.co_filename, inner.__globals__)
        if not lines:
            raise NoSource(f"the file of {inner.__name__} cannot be read: {inner.__code__.co_filename}")
        return "".join(lines)
    return _Gathered(inner.__globals__).module(inner.__name__, function)


def unwrap(thing: Any) -> Any:
    """The Python function inside a kernel (jit, interpreted, autotuned, with heuristics); others as they are."""
    while not inspect.isfunction(thing) and not isinstance(thing, (type, ModuleType)) and hasattr(thing, "fn"):
        thing = thing.fn
    return inspect.unwrap(thing) if callable(thing) else thing


class _Gathered:
    """The transitive closure of names over a notebook's namespace; imports first, then definitions in order."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.imports: dict[str, str] = {}
        self.definitions: list[str] = []
        self._seen: set[str] = set()

    def module(self, name: str, value: Any) -> str:
        self._add(name, value)
        return "\n".join([*self.imports.values(), "", *self.definitions])

    def _add(self, name: str, value: Any) -> None:
        if name in self._seen:
            return
        self._seen.add(name)
        inner = unwrap(value)
        if isinstance(value, ModuleType):
            self.imports[name] = _import_line(value.__name__, name)
        elif (inspect.isfunction(inner) or isinstance(inner, type)) and inner.__module__ == "__main__":
            self._define(name, inner)
        elif (text := _constant(value)) is not None:
            self.definitions.append(f"{name} = {text}")
        elif (line := _from_import(name, value, inner) or _written_import(name, self.namespace)) is not None:
            self.imports[name] = line
        else:
            self.definitions.append(f"# {name}, a {type(value).__name__} of the notebook, stays there: pass it as an "
                                    "argument")

    def _define(self, name: str, inner: Any) -> None:
        text = _definition(inner, self.namespace)
        for used in global_names(text):
            if used in self.namespace:
                self._add(used, self.namespace[used])
        self.definitions.append(text)
        if name != inner.__name__:                      # double = make_double, or a decorator kept another name
            self.definitions.append(f"{name} = {inner.__name__}")


def global_names(text: str) -> list[str]:
    """Names that a piece of source reads from its module, in order of appearance."""
    found: dict[str, None] = {}

    def walk(table: symtable.SymbolTable) -> None:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
                found[symbol.get_name()] = None
        for child in table.get_children():
            walk(child)

    walk(symtable.symtable(text, "<source>", "exec"))
    order = {node.id: node.lineno for node in reversed(list(ast.walk(ast.parse(text)))) if isinstance(node, ast.Name)}
    return sorted(found, key=lambda n: order.get(n, 0))


def _definition(inner: Any, namespace: dict[str, Any]) -> str:
    try:
        return textwrap.dedent(inspect.getsource(inner))
    except (OSError, TypeError):
        for tree, text in _cells(namespace):                     # classes have no code object that names their cell
            for node in tree.body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == inner.__name__:
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    return "\n".join(text.splitlines()[first - 1:node.end_lineno]) + "\n"
    raise NoSource(f"the text of {inner.__name__} cannot be found: define it in a notebook cell or in a file")


def _cells(namespace: dict[str, Any]) -> Iterable[tuple[ast.Module, str]]:
    """The notebook's cells as parsed text, latest first; a script's file."""
    names = [n for n in list(linecache.cache) if "ipython-input" in n or "ipykernel_" in n]
    names += [namespace["__file__"]] if isinstance(namespace.get("__file__"), str) else []
    executed = ["".join(linecache.getlines(name)) for name in names]       # also without a history
    executed += [text for text in namespace.get("In", ()) if isinstance(text, str)]
    for text in reversed(executed):
        try:
            yield ast.parse(text), text
        except SyntaxError:
            continue


def _import_line(module: str, name: str) -> str:
    if module == name:
        return f"import {module}"
    return f"import {module} as {name}"


def _from_import(name: str, value: Any, inner: Any) -> str | None:
    module = getattr(value, "__module__", None) or getattr(inner, "__module__", None)
    original = getattr(inner, "__name__", None) or getattr(value, "__qualname__", None)
    for known in dict.fromkeys((original, name)):
        if module and known and getattr(sys.modules.get(module), known, None) is value and module != "__main__":
            return f"from {module} import {known}" + (f" as {name}" if known != name else "")
    return None


def _written_import(name: str, namespace: dict[str, Any]) -> str | None:
    """The import statement of a cell that binds this name."""
    for tree, _ in _cells(namespace):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    if (alias.asname or alias.name.split(".")[0]) == name:
                        one = (ast.Import([alias]) if isinstance(node, ast.Import)
                               else ast.ImportFrom(node.module, [alias], node.level))
                        return ast.unparse(one)
    return None


def _constant(value: Any) -> str | None:
    """Source text of a plain value; None for anything else."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if value is None or isinstance(value, (bool, int, str, bytes)):
        return repr(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float({str(value)!r})"
    if isinstance(value, (list, tuple, set, frozenset)) and type(value) in (list, tuple, set, frozenset):
        items = [_constant(v) for v in value]
        texts = [t for t in items if t is not None]
        return f"{type(value).__name__}(({''.join(t + ', ' for t in texts)}))" if len(texts) == len(items) else None
    if type(value) is dict:
        pairs = [(_constant(k), _constant(v)) for k, v in value.items()]
        if any(k is None or v is None for k, v in pairs):
            return None
        return "{" + ", ".join(f"{k}: {v}" for k, v in pairs) + "}"
    if kind == "torch.dtype":
        return f"__import__('torch').{str(value).removeprefix('torch.')}"
    if kind == "triton.language.core.constexpr":
        inner = _constant(value.value)
        return None if inner is None else f"__import__('triton').language.constexpr({inner})"
    return None
