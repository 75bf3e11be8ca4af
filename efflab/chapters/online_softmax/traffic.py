"""Bytes between memory and a small cache, counted while PyTorch code runs: a model of what a GPU kernel would move.

Each operator reads its inputs and writes its result. A piece of a tensor that is still in the cache costs nothing;
one that is larger than the cache never is. What is written is paid for when it leaves the cache, and not at all when
it is freed before that: a temporary block lives and dies on the chip.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

Piece = tuple[int, int, int]      # storage, first element, number of elements


@dataclass(frozen=True)
class Moved:
    """Bytes read from memory and written to it."""

    read: int
    written: int

    @property
    def total(self) -> int:
        return self.read + self.written


def bytes_moved(function: Callable[..., Any], *args: Any, cache: int = 1 << 18) -> Moved:
    """The bytes that function(*args) moves past a cache of `cache` bytes. Views cost nothing."""
    with _Cache(cache) as counted:
        result = function(*args)
    counted.write_back()
    del result
    return Moved(counted.read, counted.written)


class _Cache(TorchDispatchMode):
    """The least recently used piece leaves first. _held: piece -> (bytes, whether memory lacks it)."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.read = self.written = 0
        self._capacity = capacity
        self._held: dict[Piece, tuple[int, bool]] = {}
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view or func.overloadpacket._qualified_op_name.startswith("aten::empty"):
            return result
        written_in_place = func._schema.is_mutable and isinstance(result, torch.Tensor)
        for t in args:
            if isinstance(t, torch.Tensor) and not (written_in_place and t is result):
                self._touch(t, dirty=False)
        if isinstance(result, torch.Tensor):
            self._touch(result, dirty=True)
        return result

    def _touch(self, t: torch.Tensor, *, dirty: bool) -> None:
        piece, size = self._piece(t), t.numel() * t.element_size()
        held = self._held.pop(piece, None)
        if held is None and not dirty:
            self.read += size
        if size > self._capacity:
            self.written += size if dirty else 0
            return
        self._held[piece] = (size, dirty or (held is not None and held[1]))
        while sum(n for n, _ in self._held.values()) > self._capacity:
            oldest = next(iter(self._held))
            n, lacking = self._held.pop(oldest)
            self.written += n if lacking else 0

    def _piece(self, t: torch.Tensor) -> Piece:
        storage = t.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            self._known.add(key)
            weakref.finalize(storage, self._forget, key).atexit = False
        return key, int(t.storage_offset()), t.numel()

    def _forget(self, key: int) -> None:
        self._known.discard(key)
        self._held = {piece: held for piece, held in self._held.items() if piece[0] != key}

    def write_back(self) -> None:
        """At the end: what is alive and newer than memory."""
        self.written += sum(n for n, lacking in self._held.values() if lacking)
        self._held.clear()
