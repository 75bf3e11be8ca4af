"""A course of three small chapters for a temporary folder: one written, one planned, one written."""

from __future__ import annotations

from dataclasses import dataclass

SOLUTION = '''\
"""Doubling."""

import math

LIMIT = 4
ROOT = math.sqrt(LIMIT)


# Raise what is too small,
# and say so.
def checked(x: int) -> int:
    """x, not negative."""
    if x < 0:
        raise ValueError("# BEGIN SOLUTION is not a marker here")
    return x


def double(x: int) -> int:
    """Twice x."""
    x = checked(x)
    # BEGIN SOLUTION
    answer = x + x                                          # the secret way
    return answer
    # END SOLUTION


@jit
def double_kernel(x_ptr, N):
    i = program_id(0)
    # BEGIN SOLUTION
    store(x_ptr + i, 2 * load(x_ptr + i))
    # END SOLUTION


def launch(x):
    """Twice x, by a kernel."""
    # BEGIN SOLUTION
    double_kernel[(len(x),)](x, len(x))
    return x
    # END SOLUTION
'''

LESSON = '''\
---
kernelspec:
  name: python3
  display_name: Python 3
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---

Doubling took 3 s on this machine.

```{code-cell} ipython3
:tags: [exact]

print(6 * 7)
```

Write it.

```{code-cell} ipython3
# given: double.LIMIT, ROOT, checked
```

```{code-cell} ipython3
# exercise: double.double
```

```{code-cell} ipython3
double = check(double)
```

+++

A second paragraph, with $x \\ge 0$ and a fence:

```python
double(2)
```

```{code-cell} ipython3
# exercise: double.launch = double_kernel, launch
```
'''


@dataclass(frozen=True)
class TinyExercise:
    name: str
    points: int = 2
    minutes: int = 5
    difficulty: str = "easy"


@dataclass(frozen=True)
class TinyChapter:
    number: int
    slug: str
    title: str
    part: str
    ready: bool

    @property
    def file_stem(self) -> str:
        return f"{self.number:02d}_{self.slug}"


CHAPTERS = (TinyChapter(0, "start", "Start here", "Start", True), TinyChapter(1, "halve", "Halving", "Numbers", False),
            TinyChapter(2, "double", "Doubling", "Numbers", True))
EXERCISES = {"start": (), "double": (TinyExercise("double", 1, 1), TinyExercise("launch", 3, 10, "hard"))}
DOUBLE = CHAPTERS[2]
