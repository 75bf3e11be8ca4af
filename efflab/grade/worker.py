"""The submission's side: load its definitions, run one function on the cases that come, send what was observed.

Everything here may be changed by the code it runs; the judge relies on none of it. It knows no references, no
expected outputs, no seeds.
"""

from __future__ import annotations
import __future__

import dataclasses
import importlib.abc
import linecache
import re
import socket
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from efflab.checking import wire
from efflab.checking.observe import Observation, _raised, observe
from efflab.grade import protocol

MODULE = "submission"
MAX_REQUEST = 1 << 40
_ANSWERS = re.compile(r"efflab\.chapters\.\w+\.(?!drive$|figures$)\w+$")


def serve(channel: socket.socket, device: str) -> None:
    """Answer requests until the judge hangs up: first {"load"}, then {"inputs", "drive", "forbidden"} for each case."""
    receiver = protocol.Receiver(channel, MAX_REQUEST)
    function: Any = None
    try:
        while True:
            request = wire.decode(_next(receiver), device)
            if "load" in request:
                function, reply = _load(request)
            else:
                reply = _run(function, request, torch.device(device))
            channel.settimeout(None)
            protocol.send(channel, reply)
    except protocol.Ended:
        return


def _next(receiver: protocol.Receiver) -> bytes:
    while (frame := receiver.wait(3600.0)) is None:
        pass
    return frame


class _Absent(importlib.abc.MetaPathFinder):
    """Answers are not importable while a submission is graded; the message says so."""

    def __init__(self, solutions: Sequence[str]) -> None:
        self._hidden = {f"solutions.{slug}" for slug in solutions}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name in self._hidden or _ANSWERS.match(name):
            raise ModuleNotFoundError(f"{name} is not there while a submission is graded", name=name)


def _load(request: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the definitions one by one. A statement that fails is noted; the rest goes on."""
    sys.meta_path.insert(0, _Absent(request["hidden"]))
    torch.manual_seed(0)
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    failures = [f for filename, text, kept in request["load"] for f in _run_definitions(module, filename, text, kept)]
    function = getattr(module, request["function"], None)
    return function, {"defined": callable(function), "failures": failures[:20]}


def _run_definitions(module: ModuleType, filename: str, text: str, kept: list[Any]) -> list[dict[str, Any]]:
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    module.__file__ = filename
    flags = __future__.annotations.compiler_flag if any(s.startswith("from __future__") for _, s in kept) else 0
    failures = []
    for line, source in kept:
        try:
            code = compile("\n" * (line - 1) + source, filename, "exec", flags=flags, dont_inherit=True)
            exec(code, module.__dict__)
        except (Exception, SystemExit) as error:
            told = _raised(error)
            failures.append({"line": line, "text": f"{told.kind}: {told.message}"[:600], "where": filename})
    return failures


def _run(function: Any, request: dict[str, Any], device: torch.device) -> dict[str, Any]:
    try:
        seen = observe(function, request["inputs"], drive=request["drive"], forbidden=tuple(request["forbidden"]))
        return seen.as_dict() | {"value": sendable(seen.value, device)}
    except (Exception, SystemExit) as error:          # the returned object itself raised when it was looked at
        told = _raised(error)
        message = f"what it returned cannot be read: {told.message}"
        told = dataclasses.replace(told, message=message, where="", stub=None)
        return Observation(error=told).as_dict()


def sendable(value: Any, device: torch.device) -> Any:
    """Plain data as it is; subclasses of numbers and text as their base; anything else as its type's name."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, torch.Tensor):
        if value.device.type != device.type:
            return f"{protocol.FOREIGN}tensor on {value.device}"
        return value if _encodes(value) else protocol.FOREIGN + "tensor that is not strided"
    if type(value) in (list, tuple):
        return type(value)(sendable(v, device) for v in value)
    if isinstance(value, dict) and all(type(k) is str for k in value):
        return {k: sendable(v, device) for k, v in value.items()}
    for base in (int, float, str):
        if isinstance(value, base):
            return base(value)
    return value if _encodes(value) else protocol.FOREIGN + type(value).__name__


def _encodes(value: Any) -> bool:
    try:
        wire.encode(value)
    except Exception:
        return False
    return True
