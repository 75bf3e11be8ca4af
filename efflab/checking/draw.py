"""Fresh random inputs for cases: seeded, on the right device, in awkward memory layouts on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch

Layout = Literal["contiguous", "transposed", "sliced", "expanded", "offset"]


class Draw:
    """A seeded source of inputs.

    device: where the case will run. float_dtypes: what kernels can be checked in there:
    float32 and float16, and bfloat16 on a GPU (Triton's interpreter cannot do bfloat16).
    """

    def __init__(self, seed: int, device: str | torch.device = "cpu") -> None:
        self.seed = seed
        self.device = torch.device(device)
        self._generator = torch.Generator(device="cpu").manual_seed(seed)

    @property
    def on_gpu(self) -> bool:
        return self.device.type == "cuda"

    @property
    def float_dtypes(self) -> tuple[torch.dtype, ...]:
        both = (torch.float32, torch.float16)
        if self.on_gpu and torch.cuda.get_device_capability(self.device) >= (8, 0):
            return (*both, torch.bfloat16)
        return both

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32, scale: float = 1.0, shift: float = 0.0,
               layout: Layout = "contiguous") -> torch.Tensor:
        """Values from N(shift, scale**2), of the given shape and layout."""
        return self._laid_out(shape, layout, lambda s: torch.randn(s, generator=self._generator) * scale + shift, dtype)

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0, dtype: torch.dtype = torch.float32,
                layout: Layout = "contiguous") -> torch.Tensor:
        """Values from U(low, high)."""
        def fill(s: tuple[int, ...]) -> torch.Tensor:
            return torch.rand(s, generator=self._generator) * (high - low) + low

        return self._laid_out(shape, layout, fill, dtype)

    def integers(self, *shape: int, low: int = 0, high: int = 10) -> torch.Tensor:
        """int64 values in low, …, high - 1."""
        return torch.randint(low, high, shape, generator=self._generator).to(self.device)

    def number(self, low: float, high: float) -> float:
        """One float from U(low, high)."""
        return low + (high - low) * torch.rand((), generator=self._generator).item()

    def integer(self, low: int, high: int) -> int:
        """One int in low, …, high - 1."""
        return int(torch.randint(low, high, (), generator=self._generator).item())

    def _laid_out(self, shape: tuple[int, ...], layout: Layout, fill: Callable[[tuple[int, ...]], torch.Tensor],
                  dtype: torch.dtype) -> torch.Tensor:
        def made(s: tuple[int, ...]) -> torch.Tensor:
            return fill(s).to(dtype).to(self.device)

        match layout:
            case "contiguous":
                return made(shape)
            case "transposed":            # the last two axes swapped in memory
                return made((*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)
            case "sliced":                # every row is part of a longer one
                return made((*shape[:-1], 2 * shape[-1] + 3))[..., 1:shape[-1] + 1]
            case "expanded":              # the first axis repeats one copy, stride 0
                return made((1, *shape[1:])).expand(shape)
            case "offset":                # starts an odd number of elements into its storage
                flat = made((3 + int(torch.Size(shape).numel()),))
                return flat[3:].view(shape)
