"""Small kernels with known traits, for the x-ray's tests: compiled in a process of their own, run only on a GPU."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def double(x):
    return x * 2


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, double(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def copy(x):
    y = torch.empty_like(x)
    copy_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), BLOCK=1024)
    return y


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, SIZE: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, inner = tl.arange(0, SIZE), tl.arange(0, BLOCK_K)
    acc = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * SIZE + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * SIZE + rows[None, :], acc.to(c_ptr.dtype.element_ty))


def product(a, b, block_k=64, stages=3, warps=4, maxnreg=None):
    size = a.shape[0]
    c = a.new_empty((size, size))
    return c, product_kernel[(1,)](a, b, c, a.shape[1], SIZE=size, BLOCK_K=block_k, num_stages=stages, num_warps=warps,
                                   maxnreg=maxnreg)


@triton.jit
def described_kernel(x_desc, y_ptr, SIZE: tl.constexpr):
    tile = x_desc.load([tl.program_id(0) * SIZE, 0])
    i = tl.arange(0, SIZE)
    tl.store(y_ptr + (tl.program_id(0) * SIZE + i[:, None]) * SIZE + i[None, :], tile)


def described(x):
    y = torch.empty_like(x)
    return y, described_kernel[(x.shape[0] // 64,)](TensorDescriptor.from_tensor(x, [64, 64]), y, SIZE=64)


tuned_kernel = triton.autotune(
    configs=[triton.Config({"BLOCK_K": k}, num_stages=s, num_warps=4) for k, s in ((32, 2), (256, 4))],
    key=["K"])(product_kernel)


def tuned(a, b):
    c = a.new_empty((a.shape[0], a.shape[0]))
    tuned_kernel[(1,)](a, b, c, a.shape[1], SIZE=a.shape[0])
    return c


guessed_kernel = triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})(copy_kernel)


def guessed(x, skip=None):
    y = torch.empty_like(x)
    guessed_kernel[(1,)](x, y, x.numel())
    return y


@triton.jit
def broken_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, BLOCK), x + undefined_name)      # type: ignore[name-defined]  # noqa: F821


def broken(x):
    broken_kernel[(1,)](x, BLOCK=64)
    return x


def raises(x):
    copy(x)
    raise ValueError("the wrapper gave up")


def no_launch(x):
    return x.clone()


def wide_grid(x):
    y = torch.empty_like(x)
    copy_kernel[(1, 70000)](x, y, x.numel(), BLOCK=64)
    return y


def asks_the_gpu(x):
    """The number of processors and the capability of the target decide the launch."""
    import triton.runtime.driver as driver_module  # noqa: F401

    processors = torch.cuda.get_device_properties(0).multi_processor_count
    block = 64 if torch.cuda.get_device_capability() < (8, 0) else 128
    assert torch.cuda.is_available()
    y = torch.empty_like(x)
    copy_kernel[(processors,)](x, y, x.numel(), BLOCK=block)
    return y


def crashes_on_some(x):
    import os
    import signal
    if torch.cuda.get_device_capability() == (7, 5):
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if torch.cuda.get_device_capability() == (8, 0):
        os._exit(7)
    return copy(x)


def kills_the_worker(x):
    """Once the other target has its answer."""
    import os
    import signal
    import time
    if torch.cuda.get_device_capability() == (7, 5):
        time.sleep(3)
        os.kill(os.getppid(), signal.SIGKILL)
    return copy(x)


def endless(x, marker=None):
    """Leaves its process's number in the file `marker`, and stays."""
    import os
    import time
    if marker is not None:
        with open(marker, "w") as file:
            file.write(str(os.getpid()))
    while True:
        time.sleep(0.1)


def everything(x, a, b, tile):
    """All of the above in one call, so that one process compiles them; the tests know the order."""
    copy(x)
    product(a, b)
    product(a, b, maxnreg=32)
    product(a, b, block_k=256, stages=4)
    described(tile)
    guessed(x)
    wide_grid(x)
    broken(x)
    tuned(a, b)
