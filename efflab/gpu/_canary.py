"""A small kernel really run, in a process of its own so that a crash is told and not suffered. Started by doctor.py.

It has what breaks first: tl.dot, masked loads with NaN behind the mask, a loop over an argument known at run time.
"""

from __future__ import annotations

import sys

import efflab.gpu

efflab.gpu.ensure_interpreter()

import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, N, K, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, inner = tl.arange(0, SIZE), tl.arange(0, BLOCK_K)
    acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        in_k = k + inner < K
        a = tl.load(a_ptr + rows[:, None] * K + (k + inner)[None, :], mask=(rows < N)[:, None] & in_k[None, :], other=0)
        b = tl.load(b_ptr + (k + inner)[:, None] * N + rows[None, :], mask=in_k[:, None] & (rows < N)[None, :], other=0)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc, mask=(rows < N)[:, None] & (rows < N)[None, :])


def main() -> int:
    """Multiply (17, 50) by (50, 17) in float16; exit status 0 when the product is right."""
    device = "cuda" if torch.cuda.is_available() and not efflab.gpu.machine().interpreted else "cpu"
    N, K = 17, 50
    guarded = torch.full((2, N * K + 64), float("nan"), dtype=torch.float16)
    guarded[:, :N * K] = torch.randn(2, N * K)
    a, b = guarded.to(device)
    c = torch.full((N, N), float("nan"), device=device)
    product_kernel[(1,)](a, b, c, N, K, SIZE=32, BLOCK_K=16)
    expected = a[:N * K].view(N, K).double() @ b[:N * K].view(K, N).double()
    error = (c.double() - expected).abs().max().item()
    print(f"largest error {error:.1e}")
    return 0 if error < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
