"""What speed is compared with: the best public implementations, by name.

Attention peers take q (B, Hq, Nq, D), k and v (B, Hkv, Nk, D), causal, scale, and return o like q.
PyTorch's is_causal aligns the mask at the top left, this course's at the bottom right: the two agree only where
Nq = Nk, and the SDPA peers refuse anything else.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


class UnknownPeer(LookupError):
    """No peer has this name; the message says which ones come close."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """function: called with the bar's inputs by name; it takes those that it has parameters for.
    available: None, or the reason why it cannot run here. what: one line for tables."""

    name: str
    function: Callable[..., Any]
    what: str
    available: Callable[[], str | None]

    def call(self, inputs: Mapping[str, Any]) -> Any:
        return self.function(**self.inputs(inputs))

    def inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the inputs that the peer has parameters for: a plain copy takes x and leaves alpha."""
        return {name: value for name, value in inputs.items() if name in signature(self.function).parameters}


# --- Attention --------------------------------------------------------------------------------------------------------

def _sdpa(backend_name: str, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Tensor:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"scaled_dot_product_attention(is_causal=True) aligns its mask at the top left: it is "
                         f"comparable only where Nq = Nk; got {q.shape[2]} and {k.shape[2]}")
    grouped = q.shape[1] != k.shape[1]
    if grouped and backend_name == "EFFICIENT_ATTENTION":
        raise ValueError("the memory-efficient backend has no grouped heads: repeat k and v in the bar's peer_inputs, "
                         "outside the timed span")
    with sdpa_kernel(getattr(SDPBackend, backend_name)):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)


def sdpa_flash(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    """FlashAttention-2, as PyTorch ships it."""
    return _sdpa("FLASH_ATTENTION", q, k, v, causal, scale)


def sdpa_cudnn(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    """NVIDIA's cuDNN attention."""
    return _sdpa("CUDNN_ATTENTION", q, k, v, causal, scale)


def sdpa_efficient(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    """xFormers' memory-efficient attention, as PyTorch ships it."""
    return _sdpa("EFFICIENT_ATTENTION", q, k, v, causal, scale)


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile for each shape anew. After 8 shapes dynamo would fall back to eager without a word, and the
    peer would look slow: raise that limit."""
    import torch._dynamo

    for name in ("recompile_limit", "cache_size_limit"):        # the second is the first one's old name
        if hasattr(torch._dynamo.config, name):
            setattr(torch._dynamo.config, name, max(256, getattr(torch._dynamo.config, name)))
    return torch.compile(function, dynamic=False)


@functools.lru_cache(maxsize=1)
def _compiled_flex() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention
    return _compiled(flex_attention)


@functools.lru_cache(maxsize=8)
def _causal_blocks(Nq: int, Nk: int, device: torch.device) -> Any:
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return j <= i + (Nk - Nq)

    return create_block_mask(sees, None, None, Nq, Nk, device=device)   # type: ignore[arg-type]


def flex_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    """FlexAttention under torch.compile; causal by a block mask made once, outside the timed calls."""
    blocks = _causal_blocks(q.shape[2], k.shape[2], q.device) if causal else None
    return _compiled_flex()(q, k, v, block_mask=blocks, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def naive_attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> Tensor:
    """Unfused, in the inputs' dtype: the scores and the probabilities are written to memory and read again."""
    Nq, Nk, Hkv = q.shape[2], k.shape[2], k.shape[1]
    grouped = q.unflatten(1, (Hkv, -1))                                     # (B, Hkv, Hq // Hkv, Nq, D)
    s = grouped @ k.unsqueeze(2).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).triu(Nk - Nq + 1)
        s = s.masked_fill(hidden, float("-inf"))
    return (torch.softmax(s, -1) @ v.unsqueeze(2)).flatten(1, 2)


# --- Memory-bound -----------------------------------------------------------------------------------------------------

def clone(x: Tensor) -> Tensor:
    """A copy of x: each byte read once and written once, new memory included."""
    return x.clone(memory_format=torch.contiguous_format)


@functools.lru_cache(maxsize=2)
def _room(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=device)


def copy(x: Tensor) -> Tensor:
    """A copy of x into memory that is there already."""
    return _room(x.shape, x.dtype, x.device).copy_(x)


def torch_softmax(x: Tensor) -> Tensor:
    """PyTorch's softmax over the last axis."""
    return torch.softmax(x, -1)


@functools.lru_cache(maxsize=1)
def _compiled_softmax() -> Callable[[Tensor], Tensor]:
    return _compiled(torch_softmax)


def compiled_softmax(x: Tensor) -> Tensor:
    """torch.compile's softmax over the last axis."""
    return _compiled_softmax()(x)


# --- The registry -----------------------------------------------------------------------------------------------------

def _always() -> None:
    return None


def _needs_cuda(lowest: tuple[int, int] = (7, 0)) -> str | None:
    if not torch.cuda.is_available():
        return "needs a CUDA GPU"
    have = torch.cuda.get_device_capability()
    if have < lowest:
        return f"needs compute capability {lowest[0]}.{lowest[1]}; this GPU has {have[0]}.{have[1]}"
    return None


def _needs_flash() -> str | None:
    reason = _needs_cuda((8, 0))
    if reason is None and not torch.backends.cuda.is_flash_attention_available():
        return "this PyTorch was built without FlashAttention"
    return reason


def _needs_cudnn() -> str | None:
    reason = _needs_cuda((8, 0))
    if reason is None and not torch.backends.cudnn.is_available():
        return "this PyTorch was built without cuDNN"
    return reason


def _needs_compile() -> str | None:
    from efflab.gpu.machine import interpreting

    reason = _needs_cuda()
    if reason is None and interpreting():
        return "torch.compile needs Triton in compiled mode; TRITON_INTERPRET=1 is set"
    return reason


PEERS: dict[str, Peer] = {
    function.__name__: Peer(name=function.__name__, function=function, available=available,
                            what=(function.__doc__ or "").split(":")[0].rstrip("."))
    for function, available in (
        (sdpa_flash, _needs_flash), (sdpa_cudnn, _needs_cudnn), (sdpa_efficient, _needs_cuda),
        (flex_attention, _needs_compile), (naive_attention, _always), (clone, _always), (copy, _always),
        (torch_softmax, _always), (compiled_softmax, _needs_compile))
}


def peer(name: str) -> Peer:
    """The peer of this name. Raises UnknownPeer."""
    if name not in PEERS:
        close = difflib.get_close_matches(name, PEERS, n=2, cutoff=0.5)
        suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UnknownPeer(f"No peer is called {name!r}.{suggestion} Known: {', '.join(PEERS)}.")
    return PEERS[name]
