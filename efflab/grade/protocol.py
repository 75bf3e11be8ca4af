"""Frames between the judge and a submission's process, and the only door through which its answers come in.

A frame is 8 bytes of length (little endian) and that many bytes of wire-encoded plain data. The submission's side is
not trusted: lengths are bounded, every field is checked, and text is cleaned before anyone sees it.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import torch

from efflab.checking import wire
from efflab.checking.observe import Observation, Raised
from efflab.grade.submission import shown

MAX_REPLY = 256 << 20               # bytes of one answer
MAX_HEADER = 4 << 20                # of which this much may describe it (the rest is tensors' contents)
FOREIGN = "\0foreign:"              # stands for a returned object that is not plain data
_LENGTH = struct.Struct("<Q")


class Ended(Exception):
    """The other side is gone: its process ended."""


class TooLate(Exception):
    """No full answer before the deadline."""


class Invalid(Exception):
    """What came is not an answer."""


def send(channel: socket.socket, value: Any) -> None:
    """Send one frame; the socket's own timeout holds for all of it."""
    data = wire.encode(value)
    try:
        channel.sendall(_LENGTH.pack(len(data)))
        channel.sendall(data)
    except TimeoutError as error:
        raise TooLate from error
    except OSError as error:
        raise Ended from error


class Receiver:
    """Collects one frame from a socket, a piece at a time."""

    def __init__(self, channel: socket.socket, most: int | None = None) -> None:
        self._channel = channel
        self._most = MAX_REPLY if most is None else most
        self._data = bytearray()

    def wait(self, seconds: float) -> bytes | None:
        """The frame's bytes, or None when it is not complete after this many seconds. Raises Ended, Invalid."""
        until = time.monotonic() + seconds
        while True:
            self._channel.settimeout(max(until - time.monotonic(), 1e-4))
            try:
                piece = self._channel.recv(min(1 << 20, self._missing()))
            except (TimeoutError, InterruptedError):
                return None
            except OSError as error:
                raise Ended from error
            if not piece:
                raise Ended
            self._data += piece
            if self._missing() == 0:
                frame, self._data = bytes(memoryview(self._data)[_LENGTH.size:]), bytearray()
                return frame

    def _missing(self) -> int:
        """How many bytes to ask for next; never more than what belongs to this frame."""
        if len(self._data) < _LENGTH.size:
            return _LENGTH.size - len(self._data)
        (length,) = _LENGTH.unpack_from(self._data)
        if not 0 < length <= self._most:
            raise Invalid(f"its answer has {length:,} bytes; at most {self._most:,} are taken")
        return _LENGTH.size + length - len(self._data)


def answer(frame: bytes, device: torch.device) -> dict[str, Any]:
    """A frame from a submission's process as a dict. Raises Invalid."""
    if len(frame) >= 4 and struct.unpack_from("<I", frame)[0] > MAX_HEADER:
        raise Invalid("its answer is too deeply structured to be taken")
    try:
        value = wire.decode(frame, device, dense=True)
    except (wire.WireError, MemoryError) as error:
        raise Invalid(f"its answer cannot be read ({text(str(error), 200)})") from error
    if not isinstance(value, dict):
        raise Invalid("its answer is not what the grader's own worker sends")
    return value


def observation(reply: dict[str, Any]) -> Observation:
    """The Observation that a reply describes. Raises Invalid for any field that cannot be one."""
    error = reply.get("error")
    return Observation(
        value=_native(reply.get("value")), error=None if error is None else _raised(error),
        empty=reply.get("empty") is True, changed=_texts(reply, "changed"), overrun=_texts(reply, "overrun"),
        forbidden=_texts(reply, "forbidden"), launches=_texts(reply, "launches"),
        peak_bytes=_count(reply, "peak_bytes"), flops=_count(reply, "flops"), seconds=_seconds(reply))


def text(value: Any, most: int = 1500) -> str:
    """Someone else's text, cleaned and shortened."""
    if not isinstance(value, str):
        raise Invalid("its answer holds no text where text belongs")
    return shown(value[:most]) + (" …" if len(value) > most else "") if value else ""


def _raised(error: Any) -> Raised:
    if not isinstance(error, dict):
        raise Invalid("its answer holds an error that is none")
    stub, line = error.get("stub"), error.get("line")
    return Raised(text(error.get("kind"), 100), text(error.get("message")), text(error.get("where"), 300),
                  None if stub is None else text(stub, 100), line if type(line) is int else None)


def _texts(reply: dict[str, Any], name: str) -> tuple[str, ...]:
    values = reply.get(name)
    if not isinstance(values, (tuple, list)):
        raise Invalid(f"its answer holds no {name}")
    return tuple(text(v, 200) for v in values)


def _count(reply: dict[str, Any], name: str) -> int:
    value = reply.get(name)
    if type(value) is not int or value < 0:
        raise Invalid(f"its answer holds no {name}")
    return value


def _seconds(reply: dict[str, Any]) -> float:
    value = reply.get("seconds")
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e9 else 0.0


def _native(value: Any) -> Any:
    """Plain data as it came; a marked text becomes an object whose class carries the foreign type's name."""
    if isinstance(value, str) and value.startswith(FOREIGN):
        return type(text(value[len(FOREIGN):], 60) or "object", (), {})()
    if isinstance(value, tuple):
        return tuple(_native(v) for v in value)
    if isinstance(value, list):
        return [_native(v) for v in value]
    if isinstance(value, dict):
        return {k: _native(v) for k, v in value.items()}
    return value
