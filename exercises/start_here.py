# Built from solutions/start_here.py by `efflab build`, with the answers cut out.
# Work on a copy:  ./run start start_here   puts one into work/start_here.py
# Check it:        ./run check work/start_here.py
"""Root mean square along the last axis.

    y[...] = sqrt(mean_n(x[..., n]**2))

N: size of the last axis.
"""

import torch


def rms(x: torch.Tensor) -> torch.Tensor:
    """Root mean square of x along its last axis.

    x: (..., N), any float dtype. Returns (...), in x's dtype.
    """
    raise NotImplementedError("rms: your code goes here")
