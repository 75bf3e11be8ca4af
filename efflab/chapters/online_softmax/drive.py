"""Ways to call a learner's function that plain inputs cannot express. Nothing here knows an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

Pair = tuple[torch.Tensor, torch.Tensor]


class _Stream(TorchDispatchMode):
    """x (1, N) as a stream: once a block was passed it is gone. Going back to it finds NaN.

    A read is any operator that is not a view and takes a piece of x. Reading the same piece again is allowed
    (it is in cache or in registers); so is any later piece. A piece wider than a block was never there at once.
    """

    def __init__(self, x: torch.Tensor, block: int) -> None:
        super().__init__()
        self._block = block
        self._x, self._storage = x, x.untyped_storage()._cdata
        self._start = self._end = 0        # the piece that was read last, in columns

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """As in checking.watch.Watch: or torch imports its compiler on the first operator, one second."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view:
            for t in tree_leaves((args, kwargs)):
                if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata == self._storage and t.numel():
                    self._read(t)
        return func(*args, **(kwargs or {}))

    def _read(self, t: torch.Tensor) -> None:
        start = int(t.storage_offset())
        end = start + 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
        if start < self._start or end < self._end or end - start > self._block:
            self._x.fill_(float("nan"))
        self._start, self._end = start, end


def as_stream(function: Callable[..., Any], x: torch.Tensor, block: int) -> Any:
    """function(x, block) on a copy of x (1, N) whose blocks can be read in order only."""
    stream = x.clone()
    with _Stream(stream, block):
        return function(stream, block)


def in_tree(function: Callable[[Pair, Pair], Pair], m: torch.Tensor, l: torch.Tensor,
            order: Sequence[Sequence[int]]) -> Pair:
    """Merge the pieces (m[i], l[i]) pair by pair: each (i, j) puts function(i, j) in i's place. Returns piece 0."""
    pieces = [(m[i], l[i]) for i in range(m.shape[0])]
    for i, j in order:
        pieces[i] = function(pieces[i], pieces[j])
    return pieces[0]
