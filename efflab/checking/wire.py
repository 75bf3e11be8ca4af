"""Values as bytes, without pickle: what crosses the border between the judge and a submission.

Format: 4 bytes length of a JSON header, the header, then the tensors' raw bytes one after another.
Plain data is None, bool, int, float, str, lists, tuples, dicts with string keys, dtypes, and strided tensors.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import torch

from efflab.checking.guard import HUGE_SPAN

_DTYPES = {str(d).removeprefix("torch."): d for d in (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32,
    torch.int64, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint16, torch.uint32, torch.uint64)}
_DEPTH = 32


class WireError(ValueError):
    """The value is not plain data, or the bytes are not what encode() makes."""


def encode(value: Any) -> bytes:
    """Plain data to bytes. Tensors keep shape, strides and storage offset (modulo 16); gaps are not sent."""
    blobs: list[bytes] = []
    header = json.dumps(_pack(value, blobs, 0)).encode()
    return struct.pack("<I", len(header)) + header + b"".join(blobs)


def decode(data: bytes, device: str | torch.device = "cpu", *, dense: bool = False) -> Any:
    """Bytes to the value, tensors on `device`. Raises WireError on anything malformed.

    dense: refuse tensors with gaps or repeated elements, so that no more memory is taken than there are bytes.
    """
    try:
        (size,) = struct.unpack_from("<I", data)
        header = json.loads(bytes(data[4:4 + size]))
        return _unpack(header, _Reader(memoryview(data)[4 + size:], dense), torch.device(device), 0)
    except WireError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, struct.error, RecursionError, RuntimeError,
            OverflowError, AttributeError) as error:
        raise WireError(f"malformed bytes: {error}") from error


def _pack(value: Any, blobs: list[bytes], depth: int) -> Any:
    if depth > _DEPTH:
        raise WireError("nested too deeply")
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return {"int": str(value)} if abs(value) > 2**53 else value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, torch.Tensor):
        return _pack_tensor(value, blobs)
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_pack(v, blobs, depth + 1) for v in value]}
    if type(value) is dict and all(type(k) is str for k in value):
        return {"dict": [[k, _pack(v, blobs, depth + 1)] for k, v in value.items()]}
    raise WireError(f"{type(value).__name__} is not plain data")


def _pack_tensor(t: torch.Tensor, blobs: list[bytes]) -> dict[str, Any]:
    name = str(t.dtype).removeprefix("torch.")
    if name not in _DTYPES or t.layout is not torch.strided:
        raise WireError(f"a tensor of {t.dtype}, {t.layout} cannot be sent")
    flat = t.detach().contiguous().cpu().reshape(-1)
    blobs.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return {"tensor": [name, list(t.shape), list(t.stride()), t.storage_offset() % 16, bool(t.requires_grad)]}


class _Reader:
    def __init__(self, data: memoryview, dense: bool) -> None:
        self._data = data
        self.dense = dense
        self._at = 0

    def take(self, n: int) -> memoryview:
        if n < 0 or self._at + n > len(self._data):
            raise WireError("the bytes end too early")
        self._at += n
        return self._data[self._at - n:self._at]


def _unpack(item: Any, reader: _Reader, device: torch.device, depth: int) -> Any:
    if depth > _DEPTH:
        raise WireError("nested too deeply")
    if item is None or isinstance(item, (bool, str, int, float)):
        return item
    ((kind, body),) = item.items()
    match kind:
        case "int":
            return int(body)
        case "float":
            return float(body)
        case "dtype":
            return _DTYPES[body]
        case "tensor":
            return _unpack_tensor(body, reader, device)
        case "list":
            return [_unpack(v, reader, device, depth + 1) for v in body]
        case "tuple":
            return tuple(_unpack(v, reader, device, depth + 1) for v in body)
        case "dict":
            return {str(k): _unpack(v, reader, device, depth + 1) for k, v in body}
    raise WireError(f"unknown kind {kind!r}")


def _unpack_tensor(body: Any, reader: _Reader, device: torch.device) -> torch.Tensor:
    name, shape, strides, offset, requires_grad = body
    dtype = _DTYPES[name]
    shape, strides = [int(n) for n in shape], [int(s) for s in strides]
    if any(n < 0 for n in shape) or any(s < 0 for s in strides) or len(shape) != len(strides) or not 0 <= offset < 16:
        raise WireError("a tensor's shape or strides make no sense")
    count = math.prod(shape)
    if reader.dense and offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) > max(count, 1) + 15:
        raise WireError("a tensor's elements do not lie side by side")
    raw = reader.take(count * dtype.itemsize)
    flat = torch.frombuffer(bytearray(raw), dtype=dtype) if count else torch.empty(0, dtype=dtype)
    dense = flat.reshape(shape)
    if count == 0 or (dense.stride() == tuple(strides) and not offset):
        return dense.to(device).requires_grad_(requires_grad)
    span = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if span > max(HUGE_SPAN, 4 * count) and span > 1 << 33:
        raise WireError("a tensor's strides reach too far")
    buffer = torch.empty(offset + span, dtype=dtype, device=device)
    view = buffer.as_strided(shape, strides, offset)
    if 0 in strides:                                          # write each place once
        for axis, stride in enumerate(strides):
            if stride == 0:
                dense = dense.narrow(axis, 0, 1)
        buffer.as_strided(dense.shape, strides, offset).copy_(dense)
    else:
        view.copy_(dense)
    return view.requires_grad_(requires_grad)


__all__ = ["WireError", "decode", "encode"]
