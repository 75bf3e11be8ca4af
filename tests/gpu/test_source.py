"""A notebook function's source as a module: run cells in an IPython shell, gather, load the text afresh."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from efflab.course import load_source
from efflab.gpu.source import NoSource, global_names, source_of

CELLS = '''
import math
import torch
import triton
import triton.language as tl
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from torch import Tensor
from torch.nn import functional as F
from triton import cdiv as ceil_div
#---
LOG2E = tl.constexpr(1.5)
SIZES = (64, {"a": [1, 2.5]})
DTYPE, LARGE = torch.float16, float("inf")
q = torch.randn(3)
unused = open
#---
@dataclass(frozen=True)
class Tiles:
    BLOCK: int
    warps: int = 4
#---
@triton.jit
def helper(x):
    return x * LOG2E
#---
@triton.jit
def my_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, helper(tl.load(x + i, mask=i < n)), mask=i < n)
#---
def tiles(square: Callable | None = None) -> Tiles:
    return Tiles(SIZES[0])

def ping(n):
    return pong(n - 1) if n else 0

def pong(n):
    return ping(n - 1) if n else 1
#---
def scaled(x: Tensor, mode: Literal["a"] = "a", room: float = LARGE):
    q = x                   # local: hides the notebook's q
    y = F.relu(torch.empty_like(q).to(DTYPE)).float()
    t = tiles()
    my_kernel[(ceil_div(x.numel(), t.BLOCK),)](x, y, x.numel(), t.BLOCK, num_warps=t.warps)
    return y + math.floor(0.5) + ping(2) + np.float32(0)
'''

SHELL = f'''
import os, sys
from IPython.core.interactiveshell import InteractiveShell
import __main__
import efflab
shell = InteractiveShell(user_module=__main__)
for cell in {CELLS!r}.split("#---"):
    shell.run_cell(cell, store_history=True).raise_error()
from efflab.gpu.source import source_of
sys.stdout.write(source_of(__main__.__dict__[sys.argv[1]]))
'''


def gathered(name: str) -> str:
    done = subprocess.run([sys.executable, "-c", SHELL, name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def text() -> str:
    return gathered("scaled")


def test_the_text_is_a_module_that_works(text):
    import efflab  # noqa: F401  chooses the interpreter
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("runs the kernel in the interpreter")
    module = load_source(text, "<gathered>", "gathered_module")
    assert torch.equal(module.scaled(torch.ones(100)), torch.full((100,), 1.5))


def test_the_text_holds_what_is_needed_and_no_more(text):
    for line in ("import torch", "import triton.language as tl", "from torch import Tensor", "import numpy as np",
                 "from triton import cdiv as ceil_div", "from typing import Literal", "@triton.jit", "class Tiles:",
                 "@dataclass(frozen=True)"):
        assert line in text, line
    assert "unused" not in text
    assert "\nq = " not in text
    assert text.count("def ping") == text.count("def pong") == text.count("def helper") == 1
    assert text.index("class Tiles") < text.index("def tiles")      # annotations are read when the def runs


def test_a_function_from_a_file_brings_its_file():
    assert source_of(source_of) == Path(inspect.getfile(source_of)).read_text(encoding="utf-8")


def test_a_function_without_text_is_told():
    space: dict = {"__name__": "nowhere"}
    exec("def f(): pass", space)
    with pytest.raises(NoSource, match="cannot be read"):
        source_of(space["f"])
    with pytest.raises(NoSource, match="takes a Python function"):
        source_of(3)


def test_names_that_a_piece_of_source_reads_from_its_module():
    text = ("@decorate(OPTION)\ndef f(a, b=DEFAULT) -> Kind:\n    local = a\n"
            "    def inner():\n        return local + FAR\n"
            "    return [n for n in inner() if n > LIMIT]\n")
    assert set(global_names(text)) == {"decorate", "OPTION", "DEFAULT", "Kind", "FAR", "LIMIT"}


CELL = "def f():\n    return q\n"
FAKE_NOTEBOOK = f"""
import linecache, torch
from efflab.gpu.source import source_of
In = [{CELL!r}]
linecache.cache["cell"] = ({len(CELL)}, None, In[0].splitlines(True), "cell")
exec(compile(In[0], "cell", "exec"))
q = torch.zeros(2)
print(source_of(f))
"""


def test_a_value_that_stays_in_the_notebook_is_named():
    done = subprocess.run([sys.executable, "-c", FAKE_NOTEBOOK], capture_output=True, text=True)
    assert "# q, a Tensor of the notebook, stays there: pass it as an argument" in done.stdout, done.stderr
