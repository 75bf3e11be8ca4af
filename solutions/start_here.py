"""Root mean square along the last axis.

    y[...] = sqrt(mean_n(x[..., n]**2))

N: size of the last axis.
"""

import torch


def rms(x: torch.Tensor) -> torch.Tensor:
    """Root mean square of x along its last axis.

    x: (..., N), any float dtype. Returns (...), in x's dtype.
    """
    # BEGIN SOLUTION
    return x.float().square().mean(dim=-1).sqrt().to(x.dtype)      # in float32, or large float16 values overflow
    # END SOLUTION
