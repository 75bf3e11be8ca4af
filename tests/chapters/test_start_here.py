"""Chapter 00's reference against PyTorch's RMSNorm, which divides by it."""

from __future__ import annotations

import pytest
import torch

from efflab.chapters.start_here import checks


@pytest.mark.parametrize("shape", [(1,), (17,), (4, 1), (2, 3, 33)])
def test_the_reference_is_what_rms_norm_divides_by(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    normed = torch.nn.functional.rms_norm(x, shape[-1:], eps=0.0)
    torch.testing.assert_close(checks.rms_reference(x)[..., None] * normed, x)
    torch.testing.assert_close(checks.rms_baseline(x.float()), checks.rms_reference(x).float())
