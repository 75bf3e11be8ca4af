"""A measurement that flatters: the same work on zeros and on random numbers."""

from __future__ import annotations

import numpy as np
import torch

from efflab.chapters.roofline.measure import Stopwatch, narrow_dtype

PRODUCTS = 200      # in one span, so that a GPU reaches its power limit


def zeros_and_random(watch: Stopwatch) -> tuple[str, dict[str, float]]:
    """(what was timed, {contents: seconds}).

    GPU: a chain of matrix products, at the power limit; bits that do not flip cost little power.
    CPU: the sum of 128 MiB; zeros that were never written share one page of memory, which stays in the cache.
    """
    if watch.on_gpu:
        x = torch.randn(8192, 8192, device=watch.device).to(narrow_dtype())
        out = torch.empty_like(x)

        def products(of: torch.Tensor) -> float:
            return watch.seconds(lambda: [torch.mm(of, of, out=out) for _ in range(PRODUCTS)], cold=False,
                                 warmup=1, repeats=3) / PRODUCTS

        random = products(x)
        return "8192³ product of", {"zeros": products(x.zero_()), "random numbers": random}
    zeros = torch.from_numpy(np.zeros(2**25, dtype=np.float32))      # pages come when they are written: never
    numbers = torch.randn(2**25)
    return "sum of 32M", {name: watch.seconds(t.sum, cold=False, repeats=5)
                          for name, t in (("zeros", zeros), ("random numbers", numbers))}
