"""Versions that are known not to work together, and what to do about each."""

from __future__ import annotations

import re

OLDEST_TORCH = (2, 7)


def parse(version: str) -> tuple[int, int]:
    """(major, minor) of a version text such as "2.11.0+cu130"."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"cannot read the version {version!r}: expected digits, a dot, digits")
    return int(found[1]), int(found[2])


def bad_pairs(*, torch: str, triton: str | None, numpy: str, interpreted: bool) -> list[str]:
    """Sentences about versions that do not work (together), each with what to do; empty when all is well."""
    problems = []
    if parse(torch) < OLDEST_TORCH:
        problems.append(f"torch {torch} is older than 2.7, the oldest the course is tested with. "
                        "Set up a fresh environment with ./run setup.")
    if triton is not None and interpreted and parse(triton) < (3, 7) and parse(numpy) >= (2, 4):
        problems.append(f"triton {triton} with numpy {numpy}: Triton's interpreter fails at "
                        "range(0, runtime_argument, BLOCK). Install an older numpy (pip install 'numpy<2.4') "
                        "or triton 3.7.1 or newer, and restart the kernel.")
    if triton is not None and "+cpu" not in torch and "+cu" in torch and parse(torch) >= (2, 13) \
            and parse(triton) < (3, 7):
        problems.append(f"torch {torch} was built for triton 3.7 and found triton {triton}: torch.compile and "
                        "FlexAttention fail. Install the triton that torch asks for (pip check names it).")
    return problems
