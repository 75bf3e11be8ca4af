"""Ways past the dispatcher: what is computed in numpy, in another thread or in compiled code, no dispatch mode sees.

Each of them is noted while a Watch is active. None is stopped, and all are put back afterwards.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

Undo = Callable[[], None]
_WAYS: tuple[tuple[Any, str, str], ...] = (
    (torch.Tensor, "numpy", "Tensor.numpy"), (torch.Tensor, "__array__", "numpy on a tensor"),
    (torch.Tensor, "__dlpack__", "Tensor.__dlpack__"), (threading.Thread, "start", "threading.Thread"),
    (torch, "compile", "torch.compile"),
)
_AS_LIST = (torch.Tensor, "tolist", "Tensor.tolist")


def note_ways_past(note: Callable[[str], None], *, lists: bool) -> list[Undo]:
    """Call note(name) for each way past the dispatcher that this thread takes; return what undoes the watching.

    lists: whether values taken out with Tensor.tolist count too.
    """
    here, printing = threading.get_ident(), [0]

    def noted(name: str) -> None:
        if threading.get_ident() == here and not printing[0]:
            note(name)

    undo = [_wrapped(owner, attribute, _noting(name, noted))
            for owner, attribute, name in (*_WAYS, *((_AS_LIST,) if lists else ()))]
    undo.append(_wrapped(torch._tensor_str, "_str", _unseen(printing)))  # print(x) is no part of the answer
    if "torch._dynamo" in sys.modules:                                   # what was compiled before runs as written
        stance = torch.compiler.set_stance("force_eager")
        undo.append(lambda: stance.__exit__(None, None, None))           # set_stance acts at once; __exit__ restores
    return undo


def _noting(name: str, note: Callable[[str], None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            note(name)
            return original(*args, **kwargs)

        return noted

    return wrap


def _unseen(printing: list[int]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def unseen(*args: Any, **kwargs: Any) -> Any:
            printing[0] += 1
            try:
                with _disable_current_modes():
                    return original(*args, **kwargs)
            finally:
                printing[0] -= 1

        return unseen

    return wrap


def _wrapped(owner: Any, attribute: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Undo:
    """Replace owner.attribute, which may be inherited, by wrap(it); return what undoes it."""
    own = vars(owner).get(attribute)
    setattr(owner, attribute, wrap(getattr(owner, attribute)))
    return lambda: delattr(owner, attribute) if own is None else setattr(owner, attribute, own)
