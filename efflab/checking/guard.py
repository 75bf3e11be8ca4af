"""Guard bands: every input and every fresh buffer lies between two bands of known bits, its gaps filled with NaN.

A kernel that reads past a tensor finds NaN instead of lucky memory; one that writes past it leaves a trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

# Elements before and after. Wide enough for a whole tile past the end (128 rows of 128), so that a kernel without a
# mask meets NaN and leaves a trace in place of breaking the process's heap. A multiple of 16 bytes for every dtype.
BAND = 1 << 15
HUGE_SPAN = 1 << 26
_POISON_INT = 0x5A
# NaNs with a payload of their own for bands round fresh buffers: a kernel that copies what it read past an
# input (a plain NaN) to past its output would otherwise leave no trace.
_MARKED_NAN = {torch.float16: (torch.int16, 0x7E12), torch.bfloat16: (torch.int16, 0x7FD1),
               torch.float32: (torch.int32, 0x7FC12345), torch.float64: (torch.int64, 0x7FF8123456789ABC)}


def span_of(t: torch.Tensor) -> int:
    """Number of elements from the first to the last one that the view reaches."""
    return 1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))


def mark_(flat: torch.Tensor) -> torch.Tensor:
    """Fill a band with a value that is neither a right answer nor what poison_ fills in."""
    if flat.dtype in _MARKED_NAN:
        as_int, bits = _MARKED_NAN[flat.dtype]
        flat.view(as_int).fill_(bits)
        return flat
    return flat.fill_(True if flat.dtype is torch.bool else 0x6B)


def poison_(flat: torch.Tensor) -> torch.Tensor:
    """Fill with what no right answer contains: NaN for floats, an unlikely value otherwise."""
    if flat.dtype.is_floating_point or flat.dtype.is_complex:
        return flat.fill_(float("nan"))
    return flat.fill_(True if flat.dtype is torch.bool else _POISON_INT)


@dataclass(frozen=True)
class Guarded:
    """One tensor inside a larger, poisoned buffer, with a copy of how the whole buffer looked."""

    name: str
    tensor: torch.Tensor
    buffer: torch.Tensor
    before: torch.Tensor | None     # a copy, for inputs; None for buffers whose middle may change

    def _bits(self, t: torch.Tensor) -> torch.Tensor:
        return t.contiguous().view(torch.uint8) if t.dtype is not torch.bool else t.to(torch.uint8)

    def changed(self) -> bool:
        """Whether any bit of the buffer differs from before (the tensor itself, its gaps, or its bands)."""
        assert self.before is not None
        return not torch.equal(self._bits(self.buffer), self._bits(self.before))

    def band_written(self) -> bool:
        """Whether something was written outside the tensor."""
        for band in (self.buffer[:BAND], self.buffer[-BAND:]):
            clean = mark_(torch.empty_like(band))
            if not torch.equal(self._bits(band), self._bits(clean)):
                return True
        return False


def fresh_buffer(t: torch.Tensor) -> Guarded:
    """An uninitialised tensor like t (dense, any order of axes), poisoned, between marked bands."""
    buffer = poison_(torch.empty(t.numel() + 2 * BAND, dtype=t.dtype, device=t.device))
    mark_(buffer[:BAND])
    mark_(buffer[-BAND:])
    return Guarded("a buffer that the function made", buffer.as_strided(t.shape, t.stride(), BAND), buffer, None)


def guard(t: torch.Tensor, name: str) -> Guarded:
    """Copy t (any strides, also overlapping ones) into a guarded buffer with the same strides."""
    if t.layout is not torch.strided or t.numel() == 0:
        return Guarded(name, t.detach().clone(), t.detach().reshape(-1).clone(), t.detach().reshape(-1).clone())
    span, offset = span_of(t), t.storage_offset() % 16      # the offset decides alignment: keep it
    if span > HUGE_SPAN and span > 4 * t.numel():             # a few elements in a huge buffer: leave it where it is
        return Guarded(name, t, t, t.clone())
    buffer = poison_(torch.empty(2 * BAND + offset + span, dtype=t.dtype, device=t.device))
    where = torch.arange(span, device=t.device).as_strided(t.shape, t.stride())
    buffer[BAND + offset + where.reshape(-1)] = t.detach().reshape(-1)
    view = buffer.as_strided(t.shape, t.stride(), BAND + offset)
    return Guarded(name, view.requires_grad_(t.requires_grad), buffer, buffer.clone())


def guard_inputs(inputs: Any, name: str, found: list[Guarded]) -> Any:
    """The same nested inputs with each tensor replaced by its guarded copy; `found` collects them."""
    if isinstance(inputs, torch.Tensor):
        guarded = guard(inputs, name)
        found.append(guarded)
        return guarded.tensor
    if isinstance(inputs, (list, tuple)):
        return type(inputs)(guard_inputs(x, f"{name}[{i}]", found) for i, x in enumerate(inputs))
    if isinstance(inputs, dict):
        return {k: guard_inputs(v, f"{name}[{k!r}]" if name else str(k), found) for k, v in inputs.items()}
    return inputs
