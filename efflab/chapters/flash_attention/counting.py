"""A GPU's memory that counts: what running tiled code really moves, to hold hbm_traffic against."""

from __future__ import annotations

from collections.abc import Iterator

import torch


class Counter:
    """Elements that crossed between the chip and its memory. Tensors made by `put` and `room` report here."""

    def __init__(self) -> None:
        self.read = 0
        self.written = 0

    @property
    def moved(self) -> int:
        return self.read + self.written

    def put(self, *tensors: torch.Tensor) -> list[Stored]:
        """Tensors (N, D) as they lie in memory before the kernel starts."""
        return [Stored(t, self) for t in tensors]

    def room(self, N: int, D: int, fill: float = 0.0) -> Stored:
        """An (N, D) tensor for results, filled with what an algorithm starts from."""
        return Stored(torch.full((N, D), fill), self)


class Stored:
    """An (N, D) tensor in memory: rows come in with `load` and go out with `store`, and each is counted."""

    def __init__(self, values: torch.Tensor, counter: Counter) -> None:
        self.values = values
        self.counter = counter

    def __len__(self) -> int:
        return len(self.values)

    def load(self, rows: slice) -> torch.Tensor:
        tile = self.values[rows].clone()
        self.counter.read += tile.numel()
        return tile

    def store(self, rows: slice, tile: torch.Tensor) -> None:
        self.values[rows] = tile
        self.counter.written += tile.numel()


def tiles(N: int, block: int) -> Iterator[slice]:
    """Slices of at most `block` rows that cover N."""
    for start in range(0, N, block):
        yield slice(start, min(start + block, N))
