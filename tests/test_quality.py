"""The house rules that a machine can check: lint, types, lengths, and no trace of any one machine."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULE_LINES, FUNCTION_LINES, KERNEL_LINES = 250, 30, 60

# What is longer, and why that was decided. "path" for a module, "path:function" for a function.
LONG: dict[str, str] = {
    "solutions/flash_attention.py": "the chapter's answers and the course's showpiece, read in one go from definition "
                                    "to Hopper kernel; a chapter's solutions are one file",
    "solutions/flash_attention.py:tiled_attention": "FlashAttention's two loops as the paper prints them",
    "efflab/chapters/flash_attention/widgets.py:explore_tiles": "one picture with its controls",
}


def run(*command: str) -> None:
    result = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_ruff() -> None:
    run("ruff", "check", "efflab", "solutions", "tests", "benchmarks")


def test_mypy() -> None:
    run("mypy", "--explicit-package-bases", "efflab", "solutions", "tests", "benchmarks")


def modules() -> list[Path]:
    folders = ("efflab", "solutions", "benchmarks")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def functions(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        name = f"{inside}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef):
            yield name, node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from functions(node, f"{name}.")


def code_lines(function: ast.FunctionDef) -> int:
    """Lines from def to the end, without the docstring."""
    first = function.body[0]
    has_docstring = isinstance(first, ast.Expr) and isinstance(getattr(first, "value", None), ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def too_long() -> dict[str, int]:
    found = {}
    for path in modules():
        name = str(path.relative_to(ROOT))
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MODULE_LINES:
            found[name] = text.count("\n")
        for inner, function in functions(ast.parse(text)):
            is_kernel = any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)
            if code_lines(function) > (KERNEL_LINES if is_kernel else FUNCTION_LINES):
                found[f"{name}:{inner}"] = code_lines(function)
    return found


def test_what_is_long_was_decided() -> None:
    found = too_long()
    assert not {name: lines for name, lines in found.items() if name not in LONG}, "shorten it, or give LONG a reason"
    assert not [name for name in LONG if name not in found], "no longer long: take it off the list"


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_one_machine_or_a_package_registry() -> None:
    hosts = ["py" + "pi.org", "python" + "hosted", "npm" + "js", "deb.debian" + ".org"]
    pattern = re.compile("|".join([r"(?<![\w.}\])~-])/(?:wo" + "rk|ro" + "ot)/", *map(re.escape, hosts)]))
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert not found
