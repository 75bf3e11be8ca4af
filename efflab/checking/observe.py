"""Run a function on one case and write down everything that can be seen. Runs where the learner's code runs.

It knows inputs, never references or expected outputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import gc
import importlib
import linecache
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from efflab.checking.guard import Guarded, guard_inputs
from efflab.checking.watch import Watch

_OURS = (os.path.dirname(os.path.abspath(__file__)), os.path.dirname(torch.__file__))
STUB_MARK = "your code goes here"


@dataclass(frozen=True)
class Raised:
    """An exception in the learner's code. where: its last line of their own, as text. stub: the stub it came from."""

    kind: str
    message: str
    where: str
    stub: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Observation:
    """What one call returned and did. Plain data: it crosses the process border in grading."""

    value: Any = None
    error: Raised | None = None
    empty: bool = False                    # the function has no body
    changed: tuple[str, ...] = ()          # inputs that were changed in place
    overrun: tuple[str, ...] = ()          # tensors past whose ends something was written
    forbidden: tuple[str, ...] = ()        # forbidden operators that were called
    launches: tuple[str, ...] = ()         # Triton kernels launched
    peak_bytes: int = 0
    flops: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(dataclasses.replace(self, value=None)) | {"value": self.value}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let PyTorch use one thread: the small tensors of cases gain nothing from more, and on a busy machine threads
    that wait for each other made one check 20 times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def resolve(name: str) -> Callable[..., Any]:
    """The function called "package.module:function"."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def call(function: Callable[..., Any], inputs: Mapping[str, Any], drive: str | None) -> Any:
    """function(**inputs), or through the case's drive."""
    return resolve(drive)(function, **inputs) if drive else function(**inputs)


def observe(function: Callable[..., Any], inputs: Mapping[str, Any], *, drive: str | None = None,
            forbidden: tuple[str, ...] = ()) -> Observation:
    """Call the function on guarded copies of the inputs and observe it. KeyboardInterrupt passes through."""
    guarded: list[Guarded] = []
    arguments = guard_inputs(dict(inputs), "", guarded)
    watch = Watch(forbidden)
    watch.ignore([g.tensor for g in guarded])
    value, error = None, None
    start = time.perf_counter()
    try:
        with watch:
            value = call(function, arguments, drive)
            if torch.cuda.is_available():
                torch.cuda.synchronize()          # errors of a kernel surface here, not in a later cell
    except (Exception, SystemExit) as exception:
        error = _raised(exception)
        value = None
    seconds = time.perf_counter() - start
    if error is not None and "OutOfMemory" in error.kind:
        _free()
    return Observation(
        value=_plain(value), error=error, empty=value is None and error is None and _has_no_body(function),
        changed=tuple(g.name for g in guarded if error is None and g.changed()),
        overrun=tuple(dict.fromkeys(g.name for g in watch.fresh if error is None and g.band_written())),
        forbidden=tuple(watch.used), launches=tuple(watch.launches), peak_bytes=watch.peak_bytes, flops=watch.flops,
        seconds=seconds)


def _plain(value: Any) -> Any:
    """Tensors detached and copied out of guarded buffers, with their strides forgotten; containers rebuilt."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return value.item()
    return value


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    found = []
    for frame, line in traceback.walk_tb(trace):
        found.append((frame.f_code.co_filename, line, frame.f_code.co_name))
    return found


def _raised(exception: BaseException) -> Raised:
    """The exception in words; Triton wraps what happened inside a kernel, so the innermost cause speaks."""
    inner = exception
    while inner.__cause__ is not None and not isinstance(inner, NotImplementedError):
        inner = inner.__cause__
    frames = _frames(exception.__traceback__) + (_frames(inner.__traceback__) if inner is not exception else [])
    own = [f for f in frames if not (f[0].startswith(_OURS) or "site-packages" in f[0] or "/lib/python" in f[0])]
    filename, line, name = own[-1] if own else ("", 0, "")
    code = linecache.getline(filename, line).strip()
    where = f"{name}, line {line}: {code}" if code else (f"{name}, line {line}" if name else "")
    message = str(inner).strip() or str(exception).strip()
    stub = None
    if isinstance(inner, NotImplementedError) and own and own[-1] == frames[-1]:
        stub = message.split(":")[0] if STUB_MARK in message else name
    kind = "MemoryError" if "can't allocate memory" in message else type(inner).__name__
    return Raised(kind, _short(message), where, stub, line or None)


def _short(message: str, most: int = 1200) -> str:
    return message if len(message) <= most else message[:most] + " …"


def _has_no_body(function: Callable[..., Any]) -> bool:
    """Whether it holds only a docstring, pass or an ellipsis."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = [i.opname for i in dis.get_instructions(code)]
    return all(s in {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"} for s in steps)


def _free() -> None:
    """Give back what a failed call held on the GPU."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
