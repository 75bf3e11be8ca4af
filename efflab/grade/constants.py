"""Which assignments are constants: their right-hand sides call only what constants are made with."""

from __future__ import annotations

import ast
from dataclasses import dataclass

# Quick, and without effect on anything else.
CALLS = frozenset(
    (
        "float",
        "int",
        "bool",
        "complex",
        "str",
        "bytes",
        "tuple",
        "list",
        "dict",
        "set",
        "frozenset",
        "range",
        "len",
        "min",
        "max",
        "sum",
        "abs",
        "pow",
        "round",
        "sorted",
        "zip",
        "map",
        "enumerate",
        "slice",
        "hasattr",
        "getattr",
        "isinstance",
        "partial",
        "field",
        "lru_cache",
        "namedtuple",
        "TypeVar",
        "NewType",
        "cdiv",
        "jit",
        "torch.finfo",
        "torch.iinfo",
        "torch.tensor",
        "torch.device",
        "torch.arange",
        "torch.Size",
        "torch.cuda.is_available",
        "importlib.util.find_spec",
        "os.environ.get",
        "os.getenv",
        "triton.cdiv",
        "triton.jit",
        "triton.Config",
        "triton.autotune",
        "triton.heuristics",
        "triton.next_power_of_2",
    )
)
CALL_ROOTS = frozenset(("math", "tl", "functools", "dataclasses", "collections", "typing", "operator", "enum"))
# What no definition calls, whatever the name that its result is given.
NEVER = frozenset(
    (
        "input",
        "open",
        "system",
        "run",
        "check",
        "check_call",
        "check_output",
        "Popen",
        "sleep",
        "do_bench",
        "begin",
        "hint",
        "solution",
        "eval",
        "exec",
        "__import__",
        "read",
        "wait",
        "display",
        "show",
        "figure",
        "subplots",
    )
)


@dataclass(frozen=True)
class Own:
    """Names that the submission defines: a call of its functions is a demo, one of its classes makes a constant."""

    functions: frozenset[str]
    classes: frozenset[str]


def is_constant(node: ast.expr, own: Own, shouted: bool = False) -> bool:
    """Whether every call in the expression is one that constants are made with. A lambda is a definition.

    shouted: the name is in capitals, as constants are: then only demos' calls are refused.
    """
    if isinstance(node, ast.Lambda):
        return True
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            name = ast.unparse(inner.func)
            last = name.rpartition(".")[2]
            if last in own.functions or last in NEVER:
                return False
            if not (shouted or name in CALLS or last in own.classes or name.split(".")[0] in CALL_ROOTS):
                return False
        elif isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
    return True
