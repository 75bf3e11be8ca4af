"""Where an error sits and how it is spread, in words: the pattern often names the bug."""

from __future__ import annotations

from itertools import pairwise

import torch

_TILES = (16, 32, 64, 128)


def where(bad: torch.Tensor, error: torch.Tensor) -> list[str]:
    """Sentences about the True elements of `bad` (any shape); error: how far off each element is (NaN counts most)."""
    count, total = int(bad.sum()), bad.numel()
    if bad.ndim == 0:
        return []
    places = bad.nonzero()
    size = torch.where(bad, error.nan_to_num(nan=float("inf"), posinf=float("inf")), torch.full_like(error, -1.0))
    worst = [int(i) for i in torch.unravel_index(size.argmax(), size.shape)]
    lines = [f"{count} of {total} elements; first at {[int(i) for i in places[0]]}, worst at {worst}"]
    if count == total:
        return [f"all {total} elements; worst at {worst}"]
    for axis in range(bad.ndim):
        pattern = _along(bad, axis)
        if pattern:
            lines.append(pattern)
    return lines


def _along(bad: torch.Tensor, axis: int) -> str | None:
    """How the error is spread along one axis, or None when it is everywhere along it."""
    n = bad.shape[axis]
    others = [a for a in range(bad.ndim) if a != axis]
    hit = bad.any(dim=others) if others else bad
    at = [int(i) for i in hit.nonzero().flatten()]
    name = f"axis {axis} (size {n})"
    if len(at) == n or n == 1:
        return None
    if len(at) == 1:
        which = "the first" if at[0] == 0 else "the last" if at[0] == n - 1 else f"index {at[0]}"
        return f"{name}: only {which}"
    if at == list(range(at[0], n)):
        return f"{name}: only from index {at[0]} on" + _tile(at[0])
    if at == list(range(at[-1] + 1)):
        return f"{name}: only up to index {at[-1]}" + _tile(at[-1] + 1)
    steps = {b - a for a, b in pairwise(at)}
    if len(steps) == 1 and len(at) > 2:
        return f"{name}: every index that is {at[0] % min(steps)} modulo {min(steps)}"
    for tile in _TILES:
        tiles = sorted({i // tile for i in at})
        if 1 < len(tiles) < (n + tile - 1) // tile and tiles == list(range(tiles[0], tiles[-1] + 1, 2)):
            return f"{name}: every second tile of {tile}"
    shown = ", ".join(map(str, at[:6])) + (", …" if len(at) > 6 else "")
    return f"{name}: {len(at)} of {n} indices ({shown})"


def _tile(edge: int) -> str:
    """Say so when an edge falls on a tile boundary."""
    for tile in reversed(_TILES):
        if edge and edge % tile == 0:
            return f", a multiple of {tile}"
    return ""
