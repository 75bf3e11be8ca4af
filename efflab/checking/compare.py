"""Expected against returned: first the structure, then the values, each with its own message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from efflab.checking.exercise import Output, Tolerance
from efflab.checking.locate import where


@dataclass(frozen=True)
class Difference:
    """What is wrong with one output. kind: "structure" or "values". details: lines for the report."""

    kind: str
    headline: str
    details: tuple[str, ...] = ()


def as_tuple(value: Any, outputs: tuple[Output, ...]) -> tuple[Any, ...]:
    """One output is returned bare, several as a tuple."""
    return (value,) if len(outputs) == 1 else tuple(value)


def describe(value: Any) -> str:
    """A short name for a returned value: its type, and shape and dtype for a tensor."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)} of {dtype_name(value.dtype)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None:
        return "None"
    text = repr(value) if isinstance(value, (bool, int, float, str)) else ""
    return f"{type(value).__name__} {text[:60]}".strip()


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def structure(value: Any, expected: Any, outputs: tuple[Output, ...], inputs: Mapping[str, Any]) -> Difference | None:
    """None when the value has the right form: how many outputs, tensor or number, shape, dtype, device."""
    names = ", ".join(o.name for o in outputs)
    if value is None:
        return Difference("structure", "the function returned None",
                          (f"It should return {names}. Is the return missing?",))
    if len(outputs) > 1 and (not isinstance(value, (tuple, list)) or len(value) != len(outputs)):
        return Difference("structure", f"the function returned {describe(value)}",
                          (f"It should return a tuple of {len(outputs)}: ({names}).",))
    for output, got, want in zip(outputs, as_tuple(value, outputs), as_tuple(expected, outputs), strict=True):
        difference = _form(output, got, want, inputs)
        if difference:
            return difference
    return None


def _form(output: Output, got: Any, want: Any, inputs: Mapping[str, Any]) -> Difference | None:
    def wrong(expected: str) -> Difference:
        return Difference("structure", f"{output.name} is {describe(got)}", (f"It should be {expected}.",))

    if not isinstance(want, torch.Tensor):
        if isinstance(got, torch.Tensor) and not isinstance(want, (int, float)):
            return wrong(describe(want))
        return None                                          # numbers and strings are compared by value
    if not isinstance(got, torch.Tensor):
        return wrong(f"a tensor {tuple(want.shape)}")
    if got.shape != want.shape:
        return wrong(f"of shape {tuple(want.shape)}")
    dtype = expected_dtype(output, inputs)
    if dtype is not None and got.dtype != dtype:
        return wrong(f"of dtype {dtype_name(dtype)}")
    device = next((t.device for t in inputs.values() if isinstance(t, torch.Tensor)), want.device)
    if got.device.type != device.type:
        return wrong(f"on {device}, where the inputs are; it is on {got.device}")
    return None


def expected_dtype(output: Output, inputs: Mapping[str, Any]) -> torch.dtype | None:
    return inputs[output.dtype].dtype if isinstance(output.dtype, str) else output.dtype


def coarsest_eps(output: torch.Tensor, inputs: Mapping[str, Any]) -> float:
    """Machine epsilon of the output's dtype or of the coarsest float input, whichever is larger."""
    dtypes = [t.dtype for t in (output, *inputs.values()) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point]
    return max((torch.finfo(d).eps for d in dtypes), default=0.0)


def values(value: Any, expected: Any, baselines: Sequence[Any], outputs: tuple[Output, ...], tolerance: Tolerance,
           inputs: Mapping[str, Any], exact: bool) -> Difference | None:
    """None when every output is close enough. baselines: answers that are off by rounding alone."""
    got_all, want_all = as_tuple(value, outputs), as_tuple(expected, outputs)
    rounded = [as_tuple(b, outputs) for b in baselines]
    for i, (output, got, want) in enumerate(zip(outputs, got_all, want_all, strict=True)):
        if isinstance(want, torch.Tensor):
            eps = coarsest_eps(got, inputs)
            difference = _tensor(output, got, want, [b[i] for b in rounded], tolerance, eps, exact)
        else:
            difference = _plain(output.name, got, want, exact)
        if difference:
            return difference
    return None


def allowed_error(want: torch.Tensor, rounded: Sequence[torch.Tensor], tolerance: Tolerance, eps: float) -> float:
    """factor * (largest error of a baseline) + floor * eps * max|expected|, over finite entries."""
    finite = want.isfinite()
    largest = want[finite].abs().max().item() if bool(finite.any()) else 0.0
    error = 0.0
    for base in rounded:
        both = finite & base.isfinite()
        error = max(error, (base.double() - want)[both].abs().max().item() if bool(both.any()) else 0.0)
    return tolerance.factor * error + tolerance.floor * eps * largest


def _tensor(output: Output, got: torch.Tensor, want: torch.Tensor, rounded: Sequence[torch.Tensor],
            tolerance: Tolerance, eps: float, exact: bool) -> Difference | None:
    if want.numel() == 0:
        return None
    want = want.to(got.device)
    result = got.double() if want.dtype.is_floating_point else got
    same = (result == want) | (result.isnan() & want.isnan()) if want.dtype.is_floating_point else result == want
    if exact or not want.dtype.is_floating_point:
        bad, allowed, limit = ~same, 0.0, "exactly equal values are asked for here"
        error = (result.double() - want.double()).abs()
    else:
        allowed = allowed_error(want, rounded, tolerance, eps)
        error = (result - want).abs()
        bad = ~same & ~(error <= allowed)                    # NaN and infinity in the wrong place are bad
        limit = f"{allowed:.2g} is allowed: {tolerance.factor:g} times PyTorch's own error at this dtype, plus rounding"
    if not bool(bad.any()):
        return None
    return Difference("values", _headline(output, result, want, error, bad),
                      (f"limit   {limit}", *_samples(result, want, bad, error)))


def _headline(output: Output, got: torch.Tensor, want: torch.Tensor, error: torch.Tensor, bad: torch.Tensor) -> str:
    nans = got.isnan() & ~want.isnan() if got.dtype.is_floating_point else torch.zeros_like(bad)
    if bool(nans.any()):
        return f"{output.name} has NaN in {int(nans.sum())} of {got.numel()} elements"
    infinite = (got.isinf() | want.isinf()) & bad if got.dtype.is_floating_point else torch.zeros_like(bad)
    if bool(infinite.any()):
        return f"{output.name} has infinity in the wrong place, in {int(infinite.sum())} of {got.numel()} elements"
    return f"{output.name} is off by up to {error[bad].max().item():.3g}"


def _samples(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor, error: torch.Tensor) -> list[str]:
    first = tuple(bad.nonzero()[0].tolist()) if bad.ndim else ()
    lines = [f"where   {line}" if i == 0 else f"        {line}" for i, line in enumerate(where(bad, error))]
    place = f" at {list(first)}" if first else ""
    return [*lines, f"there   got {got[first].item():.6g}, expected {want[first].item():.6g}{place}"]


def _plain(name: str, got: Any, want: Any, exact: bool) -> Difference | None:
    if isinstance(got, torch.Tensor) and got.numel() == 1:
        got = got.item()
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return Difference("values", f"{name} is {describe(got)}", (f"It should be {describe(want)}.",))
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            difference = _plain(f"{name}[{i}]", g, w, exact)
            if difference:
                return difference
        return None
    number = isinstance(want, (int, float)) and not isinstance(want, bool)
    if number and isinstance(got, (int, float)) and not isinstance(got, bool):
        close = got == want or (not exact and isinstance(want, float) and abs(got - want) <= 1e-6 * abs(want)) \
            or (got != got and want != want)
        return None if close else Difference("values", f"{name} is {got!r}", (f"expected {want!r}",))
    if type(got) is type(want) and got == want:
        return None
    return Difference("values", f"{name} is {describe(got)}", (f"expected {describe(want)}",))
