"""Wrong stopwatches and wrong copy kernels, in plain PyTorch; mistakes.py lists them with the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from efflab.checking import Mistake


# median_time -------------------------------------------------------------------------------------
def _timer(variant: str) -> Callable[..., float]:
    """A stopwatch with one fault, named by `variant`."""

    def median_time(fn: Any, *, clock: Any, synchronize: Any, warmup: int = 3, repeats: int = 10,
                    flush: Any = None) -> float:
        def wait(where: str) -> None:
            if variant not in ("never_synchronised", where):
                synchronize()

        times = []
        for i in range(warmup + repeats if variant == "warm_up_timed" else repeats):
            if i == 0 and variant != "warm_up_timed":
                for _ in range(max(1, warmup) if variant == "always_one_warm_up" else warmup):
                    fn()
            if flush is not None and variant != "flush_inside" and (i == 0 or variant != "flushed_once"):
                flush()
            wait("no_wait_before_start")
            start = clock()
            if flush is not None and variant == "flush_inside":
                flush()
            fn()
            wait("no_wait_before_end")
            times.append(clock() - start)
        return _summary(times, variant)

    median_time.__name__ = f"median_time_{variant}"
    return median_time


def _summary(times: list[float], variant: str) -> float:
    times = sorted(times)
    middle = len(times) // 2
    if variant == "mean":
        return sum(times) / len(times)
    if variant == "best":
        return times[0]
    if variant == "upper_median" or len(times) % 2:
        return times[middle]
    return (times[middle - 1] + times[middle]) / 2


def _timer_one_span(fn: Any, *, clock: Any, synchronize: Any, warmup: int = 3, repeats: int = 10,
                    flush: Any = None) -> float:
    for _ in range(warmup):
        fn()
    synchronize()
    start = clock()
    for _ in range(repeats):
        if flush is not None:
            flush()
        fn()
    synchronize()
    return (clock() - start) / repeats


MEDIAN_TIME = (
    *(Mistake(name=name, sentence=sentence, function=_timer(name)) for name, sentence in (
        ("no_wait_before_end", "the second reading does not wait: it times the launch, not the work"),
        ("no_wait_before_start", "the first reading does not wait: what was queued before (a flush, warm-up) "
                                 "is timed as well"),
        ("never_synchronised", "nothing waits for the device: this is the time to queue the work"),
        ("warm_up_timed", "warm-up calls are among the timed ones"),
        ("always_one_warm_up", "with warmup=0 there is still a warm-up call"),
        ("flush_inside", "the flush is inside the timed span"),
        ("flushed_once", "the cache is flushed once, before the first repeat; from the second on it is warm"),
        ("mean", "the mean is returned: one hiccup moves it, the median stays"),
        ("best", "the fastest repeat is returned, not the median"),
        ("upper_median", "the upper one of the middle two is returned; for even repeats the median is their mean"),
    )),
    Mistake(name="one_span", function=_timer_one_span,
            sentence="all repeats are timed as one span and divided: a mean, with the flushes inside"),
)


# scale_copy --------------------------------------------------------------------------------------
_BLOCK = 1024  # what most first kernels use


def _scaled(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return (x.float() * alpha).to(x.dtype).contiguous()


def _copy_ignores_strides(x: torch.Tensor, alpha: float) -> torch.Tensor:
    memory = x.as_strided((1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)),), (1,))
    position = torch.arange(x.numel(), device=x.device)
    y = _scaled(memory[position.clamp(max=memory.numel() - 1)], alpha)
    return torch.where(position < memory.numel(), y, float("nan")).to(x.dtype).reshape(x.shape)


def _copy_drops_tail(x: torch.Tensor, alpha: float) -> torch.Tensor:
    y = _scaled(x, alpha).reshape(-1)
    y[x.numel() // _BLOCK * _BLOCK:] = float("nan")            # never written
    return y.reshape(x.shape)


def _copy_first_block_only(x: torch.Tensor, alpha: float) -> torch.Tensor:
    y = _scaled(x, alpha).reshape(-1)
    y[_BLOCK:] = float("nan")
    return y.reshape(x.shape)


def _copy_like_strides(x: torch.Tensor, alpha: float) -> torch.Tensor:
    y = torch.empty_like(x)                                     # keeps the strides of a transposed x
    y.as_strided((x.numel(),), (1,))[:] = _scaled(x, alpha).reshape(-1)
    return y


def _copy_alpha_in_half(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return _scaled(x, torch.tensor(alpha).to(x.dtype).item())


def _copy_flat(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return _scaled(x, alpha).reshape(-1)


def _copy_in_float32(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x.float().contiguous() * alpha


def _copy_in_place(x: torch.Tensor, alpha: float) -> torch.Tensor:
    if 0 in x.stride():
        return _scaled(x, alpha)
    return x.mul_(alpha)


def _copy_torch(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x * alpha


def _copy_unscaled(x: torch.Tensor, alpha: float) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


SCALE_COPY = (
    Mistake(name="strides_ignored", function=_copy_ignores_strides,
            sentence="memory is read in order, as if x were contiguous; x's strides say where its elements lie"),
    Mistake(name="tail_dropped", function=_copy_drops_tail,
            sentence="the last, partial block gets no program: the grid has to be rounded up"),
    Mistake(name="first_block_only", function=_copy_first_block_only,
            sentence="every program does the first block, or there is one program: use tl.program_id"),
    Mistake(name="empty_like_keeps_strides", function=_copy_like_strides,
            sentence="torch.empty_like(x) takes over the strides of a transposed x, and the kernel writes y in order"),
    Mistake(name="alpha_in_half", function=_copy_alpha_in_half,
            sentence="alpha is rounded to x's 16-bit type before the product; convert x to float32, multiply, "
                     "round once"),
    Mistake(name="flat_output", function=_copy_flat, recognisable=False,
            sentence="y is flat; it has to have x's shape"),
    Mistake(name="float32_output", function=_copy_in_float32, recognisable=False,
            sentence="y is float32; it has to have x's dtype"),
    Mistake(name="in_place", function=_copy_in_place, caught_by="in_place",
            sentence="x itself was scaled; y has to be a new tensor"),
    Mistake(name="torch_does_it", function=_copy_torch, caught_by="forbidden",
            sentence="PyTorch does the work; the kernel is to do it"),
    Mistake(name="not_scaled", function=_copy_unscaled,
            sentence="x is copied and not multiplied by alpha"),
)
