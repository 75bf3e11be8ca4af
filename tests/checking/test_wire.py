"""Bytes without pickle: everything plain survives, everything else is refused."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efflab.checking.wire import WireError, decode, encode

plain = st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
                     lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
                     max_leaves=12)


@given(plain)
@settings(max_examples=200, deadline=None)
def test_plain_data_survives(value: object) -> None:
    assert decode(encode(value)) == value


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_garbage_is_refused_or_plain(data: bytes) -> None:
    with contextlib.suppress(WireError):
        decode(data)


@pytest.mark.parametrize("t", [
    torch.randn(3, 4), torch.randn(4, 3).T, torch.randn(3, 9)[:, 2:7], torch.randn(1, 5).expand(3, 5),
    torch.randn(2, 1, 5).expand(2, 3, 5), torch.randn(20)[3:18].view(3, 5), torch.tensor(3.5), torch.empty(0, 3),
    torch.randn(5).half(), torch.randn(5).bfloat16(), torch.arange(4), torch.tensor([True, False]),
], ids=lambda t: f"{tuple(t.shape)}{tuple(t.stride())}{t.dtype}")
def test_tensors_keep_values_and_strides(t: torch.Tensor) -> None:
    back = decode(encode({"t": t}))["t"]
    assert torch.equal(back, t)
    assert back.dtype == t.dtype
    assert back.stride() == t.stride()


def test_nan_and_infinity_survive() -> None:
    back = decode(encode([math.inf, -math.inf, math.nan, torch.tensor([math.nan, math.inf])]))
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])
    assert torch.equal(back[3].isnan(), torch.tensor([True, False]))


@pytest.mark.parametrize("value", [object(), {1: 2}, {1, 2}, b"x", lambda: 1, torch.randn(3).to_sparse()])
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(WireError):
        encode(value)


def test_forged_sizes_are_refused() -> None:
    good = encode(torch.randn(4))
    bigger = good.replace(b"[4]", b"[9]")
    for forged in (good[:-1], bigger, good.replace(b"[1]", b"[99999999999]"), b"", b"\xff\xff\xff\xff"):
        with pytest.raises(WireError):
            decode(forged)
