"""What a call did, seen below autograd: operators, memory, FLOPs, Triton launches; fresh buffers are poisoned.

Only one Watch is active at a time. It changes nothing but the contents of uninitialised memory.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from efflab.checking.aside import note_ways_past
from efflab.checking.guard import Guarded, fresh_buffer, poison_, span_of

_UNINITIALISED = {"aten.empty", "aten.empty_like", "aten.empty_strided", "aten.new_empty", "aten.new_empty_strided"}


class Watch(TorchDispatchMode):
    """Observe every operator called inside `with Watch(...)`.

    forbidden: ATen names; one that ends in * is a prefix, one that starts with ! is allowed in spite of a prefix; "*"
        is every operator but views. used: those that were called, in order, and ways past the dispatcher.
    peak_bytes: largest sum of live storages created inside. flops: of matrix products.
    launches: names of the Triton kernels that were launched.
    """

    def __init__(self, forbidden: tuple[str, ...] = ()) -> None:
        super().__init__()
        refused = [name for name in forbidden if not name.startswith("!")]
        self._exact = {name for name in refused if not name.endswith("*")}
        self._prefixes = tuple(name[:-1] for name in refused if name.endswith("*") and name != "*")
        self._all = "*" in refused
        self._allowed = tuple(name[1:] for name in forbidden if name.startswith("!"))
        self.used: list[str] = []
        self.peak_bytes = 0
        self.flops = 0
        self.launches: list[str] = []
        self.fresh: list[Guarded] = []
        self._live: dict[int, tuple[int, int]] = {}           # storage -> (bytes counted, bytes it had then)
        self._live_bytes = 0
        self._in_launch = 0
        self._sizes: dict[int, int] = {}
        self._undo: list[Callable[[], None]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False keeps torch from wrapping __torch_dispatch__: that imports torch._dynamo (two seconds, on the first
        operator) to switch off a compiler that never runs here."""
        return False

    def __enter__(self) -> Watch:
        self._watch_launches()
        if self._all or self._exact or self._prefixes:
            self._undo += note_ways_past(self._note, lists=self._all)
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        super().__exit__(*exception)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func.overloadpacket)                       # "aten._softmax"
        if self._refused(name, func):
            self._note(name)
        result = func(*args, **(kwargs or {}))
        if name in _UNINITIALISED and isinstance(result, torch.Tensor):
            result = self._guarded_buffer(result)
        self._count_flops(func, args, kwargs or {}, result)
        for t in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(t, torch.Tensor):
                self._track(t)
        return result

    def _refused(self, name: str, func: Any) -> bool:
        if name in self._exact:
            return True
        if any(name == a or (a.endswith("*") and name.startswith(a[:-1])) for a in self._allowed):
            return False
        return name.startswith(self._prefixes or ("\0",)) or (self._all and not getattr(func, "is_view", False))

    def _note(self, name: str) -> None:
        if not self._in_launch and name not in self.used:
            self.used.append(name)

    def _guarded_buffer(self, t: torch.Tensor) -> torch.Tensor:
        """The same uninitialised tensor, in a poisoned buffer with bands on both sides."""
        if t.numel() == 0 or t.layout is not torch.strided or t.device.type not in ("cpu", "cuda"):
            return t
        if span_of(t) != t.numel():                           # gaps inside: nothing to guard
            return poison_(t)
        guarded = fresh_buffer(t)
        self.fresh.append(guarded)
        self._sizes[guarded.tensor.untyped_storage()._cdata] = t.numel() * t.element_size()   # bands are not counted
        return guarded.tensor

    def _track(self, t: torch.Tensor) -> None:
        if t.layout is not torch.strided or t.device.type == "meta":
            return
        storage = t.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._live:
            counted, had = self._live[key]
            if size <= had:
                return
            self._live[key] = (counted + size - had, size)    # it was resized, by resize_ or by out=
            self._live_bytes += size - had
        else:
            counted = self._sizes.pop(key, size)
            self._live[key] = (counted, size)
            self._live_bytes += counted
            weakref.finalize(storage, self._freed, key).atexit = False
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)

    def _freed(self, key: int) -> None:
        self._live_bytes -= self._live.pop(key, (0, 0))[0]

    def ignore(self, tensors: list[torch.Tensor]) -> None:
        """Do not count these: they were there before."""
        for t in tensors:
            storage = t.untyped_storage()
            self._live[storage._cdata] = (0, storage.nbytes())

    def _count_flops(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        from torch.utils.flop_counter import flop_registry

        count = flop_registry.get(func.overloadpacket)
        if count is not None:
            self.flops += count(*args, **kwargs, out_val=result)

    def _watch_launches(self) -> None:
        """See launches through triton's public KernelInterface; without triton there is nothing to see."""
        triton = sys.modules.get("triton")
        if triton is None:
            return
        original = triton.KernelInterface.__getitem__
        watch = self

        def launcher(kernel: Any, grid: Any) -> Callable[..., Any]:
            launch = original(kernel, grid)

            def run(*args: Any, **kwargs: Any) -> Any:
                watch.launches.append(getattr(getattr(kernel, "fn", kernel), "__name__", "kernel"))
                watch._in_launch += 1
                try:
                    with _disable_current_modes():            # what triton does inside is its own
                        return launch(*args, **kwargs)
                finally:
                    watch._in_launch -= 1

            return run

        triton.KernelInterface.__getitem__ = launcher
        self._undo.append(lambda: setattr(triton.KernelInterface, "__getitem__", original))
