"""Guard bands, poisoned buffers, and what is seen below autograd."""

from __future__ import annotations

import threading

import pytest
import torch
import triton
import triton.language as tl

import efflab  # noqa: F401  (chooses the interpreter before triton is imported)
from efflab.checking.guard import BAND, guard
from efflab.checking.observe import observe
from efflab.checking.watch import Watch

LAYOUTS = {
    "contiguous": lambda: torch.randn(3, 5),
    "transposed": lambda: torch.randn(5, 3).T,
    "sliced": lambda: torch.randn(3, 9)[:, 2:7],
    "expanded": lambda: torch.randn(1, 5).expand(3, 5),
    "offset": lambda: torch.randn(20)[3:18].view(3, 5),
    "integers": lambda: torch.arange(15).view(3, 5),
    "booleans": lambda: torch.randn(3, 5) > 0,
    "half": lambda: torch.randn(3, 5).half(),
    "scalar": lambda: torch.tensor(2.0),
    "empty": lambda: torch.empty(0, 5),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_guarded_copy_has_the_same_values_and_strides(layout: str) -> None:
    t = LAYOUTS[layout]()
    g = guard(t, "x")
    assert torch.equal(g.tensor, t)
    assert g.tensor.stride() == t.stride()
    assert not g.changed()


def test_gaps_and_bands_hold_nan() -> None:
    g = guard(torch.randn(3, 9)[:, 2:7], "x")
    assert int((~g.buffer.isnan()).sum()) == 15
    assert bool(g.buffer[:BAND].isnan().all())


def test_every_kind_of_change_to_an_input_is_seen() -> None:
    def into_values(x: torch.Tensor) -> torch.Tensor:
        x[0, 0] += 1
        return x.clone()

    def into_the_gap(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((3, 9), (9, 1), x.storage_offset())[0, 6] = 1.0
        return x.clone()

    def undone(x: torch.Tensor) -> torch.Tensor:
        return x.add_(1.0).sub_(1.0).clone()

    x = torch.randn(3, 9)[:, 2:7]
    assert observe(into_values, {"x": x}).changed == ("x",)
    assert observe(into_the_gap, {"x": x}).changed == ("x",)
    assert observe(lambda x: x + 1, {"x": x}).changed == ()
    assert observe(undone, {"x": x * 1e-3}).changed == ("x",), "rounding leaves a trace"
    assert observe(lambda q: q["k"][0].zero_(), {"q": {"k": [x]}}).changed == ("q['k'][0]",)


@triton.jit
def _copy_without_mask(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at))


@triton.jit
def _store_nothing(x_ptr, y_ptr, BLOCK: tl.constexpr):
    pass


def _launch(kernel: object, x: torch.Tensor, programs: int) -> torch.Tensor:
    y = torch.empty_like(x)
    kernel[(programs,)](x, y, BLOCK=64)      # type: ignore[index]
    return y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_a_store_past_the_end_is_seen(dtype: torch.dtype) -> None:
    x = (torch.randn(100) * 100).to(dtype)
    seen = observe(lambda x: _launch(_copy_without_mask, x, 2), {"x": x})
    assert seen.overrun, "128 elements were written into 100"
    assert not observe(lambda x: _launch(_copy_without_mask, x, 2), {"x": torch.randn(128)}).overrun


def test_what_was_not_written_is_nan() -> None:
    seen = observe(lambda x: _launch(_store_nothing, x, 1), {"x": torch.randn(64)})
    assert bool(seen.value.isnan().all())
    assert seen.launches == ("_store_nothing",)


def test_forbidden_operators_are_seen_under_any_name() -> None:
    names = ("aten._softmax", "aten.logsumexp", "aten._scaled_dot_product*")
    x = torch.randn(1, 1, 4, 16)
    for sneaky in (lambda x: x.softmax(-1), lambda x: torch.nn.Softmax(dim=-1)(x), lambda x: torch.logsumexp(x, -1),
                   lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x)):
        assert observe(sneaky, {"x": x}, forbidden=names).forbidden
    assert not observe(lambda x: x.exp() / x.exp().sum(-1, keepdim=True), {"x": x}, forbidden=names).forbidden


def test_peak_bytes_counts_what_lives_at_once() -> None:
    def one_at_a_time(x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(1)
        for row in x:
            total = total + (row * 2).sum()
        return total

    x = torch.randn(64, 1024)
    assert observe(one_at_a_time, {"x": x}).peak_bytes < 3 * 4 * 1024
    whole = observe(lambda x: (x * 2).sum(), {"x": x}).peak_bytes
    assert 4 * 64 * 1024 <= whole < 4 * 64 * 1024 + 64
    assert observe(lambda x: torch.empty(1000), {"x": x}).peak_bytes == 4000, "guard bands are not counted"


def test_flops_of_products_are_counted() -> None:
    a, b = torch.randn(8, 16), torch.randn(16, 4)
    assert observe(lambda a, b: a @ b, {"a": a, "b": b}).flops == 2 * 8 * 16 * 4


def test_leaving_a_watch_undoes_everything() -> None:
    original = triton.KernelInterface.__getitem__
    with pytest.raises(KeyboardInterrupt), Watch():
        raise KeyboardInterrupt
    assert triton.KernelInterface.__getitem__ is original
    assert torch.empty(4).shape == (4,)


def test_an_interrupt_passes_through() -> None:
    def interrupted(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        observe(interrupted, {"x": torch.randn(2)})


def test_memory_of_a_resized_tensor_is_counted() -> None:
    def resized(x: torch.Tensor) -> torch.Tensor:
        return torch.mul(x, 2, out=torch.empty(0))

    assert observe(resized, {"x": torch.randn(1000)}).peak_bytes == 4000


def test_everything_but_what_is_allowed_is_forbidden() -> None:
    names = ("*", "!aten.empty*")

    def makes(x: torch.Tensor) -> torch.Tensor:
        str(x)                                              # printing is no part of the answer
        return torch.empty_like(x).view(-1).t()

    x = torch.randn(3)
    assert observe(makes, {"x": x}, forbidden=names).forbidden == ()
    assert observe(lambda x: x.prelu(x[:1]), {"x": x}, forbidden=names).forbidden == ("aten._prelu_kernel",)


def test_ways_past_the_dispatcher_are_noted_and_put_back() -> None:
    def by_numpy(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)

    def in_a_thread(x: torch.Tensor) -> torch.Tensor:
        thread = threading.Thread(target=x.sum)
        thread.start()
        thread.join()
        return x

    before = torch.Tensor.numpy, torch.Tensor.__array__, threading.Thread.start, torch.compile, torch._tensor_str._str
    x, names = torch.randn(3), ("aten._softmax",)
    assert observe(by_numpy, {"x": x}, forbidden=names).forbidden == ("Tensor.numpy",)
    assert observe(in_a_thread, {"x": x}, forbidden=names).forbidden == ("threading.Thread",)
    assert observe(by_numpy, {"x": x}).forbidden == (), "nothing is forbidden there"
    after = torch.Tensor.numpy, torch.Tensor.__array__, threading.Thread.start, torch.compile, torch._tensor_str._str
    assert after == before
