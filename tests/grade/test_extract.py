"""What is taken of a text, and what is left."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from efflab import course
from efflab.grade.extract import Unit, unit_of, without_erasing_stubs


def names(unit: Unit) -> list[str]:
    return [name for s in unit.kept for name in sorted(s.names)]


@pytest.mark.parametrize(
    "text",
    [
        "import torch",
        "from math import pi",
        "def f():\n    return 1",
        "async def f():\n    pass",
        "class A:\n    x = 1",
        "BLOCK = 128",
        "BLOCK = tl.constexpr(128)",
        "LOG2E = math.log2(math.e)",
        "SIZES = [2**i for i in range(4)]",
        "A, B = 1, 2",
        "x: int = 3",
        "f = lambda x: x + 1",
        "MAX = torch.finfo(torch.float16).max",
        "kernel = triton.jit(body)",
        "NF4 = torch.tensor([1., 2.])",
        "try:\n    import triton\nexcept ImportError:\n    triton = None",
        "if torch.cuda.is_available():\n    DEVICE = 'cuda'",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n    n: int\nBEST = C(n=3)",
    ],
)
def test_definitions_are_kept(text: str) -> None:
    unit = unit_of(text, "a.py")
    assert "\n".join(s.source for s in unit.kept) == text


@pytest.mark.parametrize(
    "text",
    [
        "print('hello')",
        "while True:\n    pass",
        "for i in range(3):\n    f(i)",
        "f = check(f)",
        "x = open('y').read()",
        "if __name__ == '__main__':\n    run()",
        "assert f(1) == 2",
        "with a:\n    b = 1",
        "x.y = 3",
        "d['k'] = 1",
        "del f",
        "import_result = __import__('os').system('true')",
        "(y := f(1))",
        "try:\n    run()\nexcept E:\n    pass",
        "x = [g(i) for i in range(3)]",
    ],
)
def test_everything_else_stays_behind(text: str) -> None:
    assert unit_of(text, "a.py").kept == []


def test_statements_on_one_line_are_told_apart() -> None:
    unit = unit_of("a = 1; print(a); b = 2", "a.py")
    assert [s.source for s in unit.kept] == ["a = 1", "b = 2"]


def test_a_decorated_function_begins_at_its_decorator() -> None:
    unit = unit_of("\n\n@triton.jit\ndef k(x):\n    pass  # done\n", "a.py")
    assert (unit.kept[0].line, unit.kept[0].source) == (3, "@triton.jit\ndef k(x):\n    pass  # done")


@pytest.mark.parametrize(
    "text",
    [
        "%pip install torch\ndef f():\n    return 1",
        "!ls\ndef f():\n    return 1",
        "%%time\ndef f():\n    return 1",
        "files = !ls\ndef f():\n    return 1",
        "f?\ndef f():\n    return 1",
        "?f\ndef f():\n    return 1",
        "def f():\n    !ls\n    return 1",
        "x = %timeit -o g()\ndef f():\n    return 1",
    ],
)
def test_magics_and_shell_lines_are_dropped(text: str) -> None:
    unit = unit_of(text, "cell", cell=True)
    assert unit.broken == []
    assert "f" in names(unit)


def test_a_line_that_only_looks_like_a_magic_is_kept() -> None:
    unit = unit_of("N = (17\n  %five)\ndef f():\n    return '''\n%time\n!x\n'''", "cell", cell=True)
    assert names(unit) == ["N", "f"]
    assert "%time\n!x" in unit.kept[1].source


def test_a_cell_of_another_language_is_empty() -> None:
    assert unit_of("%%bash\ndef f():\n    pass", "cell", cell=True).kept == []
    assert unit_of("%%writefile x.py\ndef f(): return 1", "cell", cell=True).kept == []


def test_a_syntax_error_in_a_cell_names_the_functions_that_live_there() -> None:
    unit = unit_of("def double(x)\n    return x", "nb, cell 3", cell=True)
    (broken,) = unit.broken
    assert broken.names == {"double"}
    assert str(broken).startswith("SyntaxError: ")
    assert "(nb, cell 3, line 1): def double(x)" in str(broken)


def test_a_syntax_error_in_a_file_loses_only_its_function() -> None:
    unit = unit_of(
        "import torch\n\ndef a():\n    return 1\n\n@jit\ndef b(:\n    return 2\n\ndef c():\n    return 3\n", "f.py"
    )
    assert names(unit) == ["torch", "a", "c"]
    assert [(b.names, b.line) for b in unit.broken] == [({"b"}, 7)]
    assert unit.kept[-1].line == 10


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 5000 + ")" * 5000,
        "x = " + "-" * 100_000 + "1",
        "x = a" + ".b" * 20_000,
        "def f():\n    return '\0'",
    ],
)
def test_what_cannot_be_parsed_is_broken_and_nothing_worse(text: str) -> None:
    unit = unit_of(text, "f.py")
    assert unit.broken or unit.kept


STUB = 'def f(x):\n    """Doc."""\n    raise NotImplementedError("f: your code goes here")'


@pytest.mark.parametrize(
    "stub",
    [
        STUB,
        "def f(x):\n    pass",
        "def f(x): ...",
        "def f(x):\n    'Doc.'",
        "def f(x):\n    n = 1\n    pass  # your code goes here\n    return n",
    ],
)
def test_an_unfilled_stub_does_not_erase_a_filled_one(stub: str) -> None:
    units = [unit_of("def f(x):\n    return 1", "cell 1"), unit_of(stub, "cell 2")]
    (note,) = without_erasing_stubs(units)
    assert "f is defined again at cell 2, line 1, and left unfilled" in note
    assert [s.source for u in units for s in u.kept] == ["def f(x):\n    return 1"]


def test_a_filled_one_replaces_a_stub_and_the_later_of_two_wins() -> None:
    units = [
        unit_of(STUB, "cell 1"),
        unit_of("def f(x):\n    return 1", "cell 2"),
        unit_of("def f(x):\n    return 2", "cell 3"),
    ]
    assert without_erasing_stubs(units) == []
    assert [u.filename for u in units if u.kept][-1] == "cell 3"


@pytest.mark.parametrize("path", sorted(((course.root() or Path()) / "solutions").glob("*.py")), ids=lambda p: p.stem)
def test_all_that_the_course_gives_is_kept(path: Path) -> None:
    """A learner's file begins as the stub of this one: none of its statements may be taken for a demo."""
    text = path.read_text(encoding="utf-8")
    given = [n for n in ast.parse(text).body if not isinstance(n, ast.Expr) and "__name__" not in ast.unparse(n)[:20]]
    kept = {s.line for s in unit_of(text, path.name).kept}
    first = {min([n.lineno, *[d.lineno for d in getattr(n, "decorator_list", ())]]): ast.unparse(n)[:80] for n in given}
    assert {line: code for line, code in first.items() if line not in kept} == {}
