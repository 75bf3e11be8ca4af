"""Inputs as plain data: a tensor is its dtype, shape, strides and place in its storage, not its contents.

So inputs of real size cross to the x-ray's process as a few words of JSON, and two inputs with the same
words compile to the same kernels. Small integer tensors (counts, offsets) carry their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

CARRIED_VALUES = 4096       # integer tensors up to this many elements travel with their values


def describe(value: Any) -> Any:
    """`value` as JSON-ready data. Raises TypeError for what cannot be described."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.dtype):
        return {"kind": "dtype", "name": str(value).removeprefix("torch.")}
    if isinstance(value, torch.Tensor):
        return _describe_tensor(value)
    if isinstance(value, (list, tuple)):
        return {"kind": type(value).__name__, "items": [describe(v) for v in value]}
    if isinstance(value, Mapping):
        return {"kind": "dict", "items": [[describe(k), describe(v)] for k, v in value.items()]}
    raise TypeError(f"the x-ray takes tensors, numbers, strings, dtypes, None and lists, tuples or dicts of them; "
                    f"got {type(value).__name__}")


def _describe_tensor(x: torch.Tensor) -> dict[str, Any]:
    spec = {"kind": "tensor", "dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape),
            "stride": list(x.stride()), "offset": x.storage_offset()}
    if not x.dtype.is_floating_point and not x.dtype.is_complex and x.numel() <= CARRIED_VALUES:
        spec["values"] = x.flatten().tolist()
    return spec


def build(spec: Any) -> Any:
    """The value that `describe` described; contents of large and of float tensors are whatever memory held."""
    if not isinstance(spec, dict):
        return spec
    match spec["kind"]:
        case "dtype":
            return getattr(torch, spec["name"])
        case "tensor":
            return _build_tensor(spec)
        case "dict":
            return {build(k): build(v) for k, v in spec["items"]}
        case "list":
            return [build(v) for v in spec["items"]]
        case _:
            return tuple(build(v) for v in spec["items"])


def _build_tensor(spec: dict[str, Any]) -> torch.Tensor:
    shape, stride, offset, dtype = spec["shape"], spec["stride"], spec["offset"], getattr(torch, spec["dtype"])
    reach = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    x = torch.empty(offset + reach, dtype=dtype).as_strided(shape, stride, offset)
    if "values" in spec and reach and all(step > 0 or size == 1 for size, step in zip(shape, stride, strict=True)):
        x.copy_(torch.tensor(spec["values"], dtype=dtype).view(shape))
    return x
