"""What an exercise is: plain data, declared by a chapter's checks.py and read by the engine.

An exercise never holds the learner's function. The engine asks it for cases, lets the
function (in this process or in another one) produce an Observation for each, and judges
the observations against the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from efflab.checking.draw import Draw

Outcome = Literal["passed", "failed", "error", "not_attempted", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Closed-form bounds on what one call may cost. None: not judged.

    extra_bytes: peak bytes of tensors created during the call and alive at the same time,
        the returned ones included, the inputs not.
    flops: floating-point operations of matrix products, as torch.utils.flop_counter counts them.
    launches: Triton kernel launches.
    because: one sentence for the learner when a bound is passed.
    """

    extra_bytes: int | None = None
    flops: int | None = None
    launches: int | None = None
    because: str = ""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of inputs. `inputs` maps parameter names to tensors, numbers, strings, None,
    or lists, tuples and dicts of these.

    drive: "package.module:function" that calls the learner's function on inputs that are not
        plain data (a fake clock, a generator): it gets (function, **inputs), runs where the
        learner's code runs, and returns plain data. It must hold nothing that gives an answer away.
    expect: for a case with a drive, or whose answer is not the reference's: a function of the
        same inputs (tensors in float64) that returns what `drive` should return.
    exact: outputs must be equal to the last bit (formats, schedules, bookkeeping).
    hidden: held back from the report's details.
    last: run only when every case before it passed, because it could crash a kernel that is wrong in another way
        (huge strides: an address computed wrongly lies outside the process's memory).
    """

    name: str
    inputs: Mapping[str, Any]
    drive: str | None = None
    expect: Callable[..., Any] | None = None
    limit: Limit = field(default_factory=Limit)
    exact: bool = False
    hidden: bool = False
    last: bool = False


@dataclass(frozen=True)
class Output:
    """One returned value. dtype: a torch dtype, the name of the input whose dtype it takes, or
    None for a plain Python number, string or nested list."""

    name: str
    dtype: torch.dtype | str | None = None


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Allowed error against float64:  factor * (largest error of the baseline) + floor * eps * max|expected|.

    The baseline is the same computation in PyTorch at the same dtype, and the reference on inputs moved by a last bit.
    eps is that of the output's dtype or of the lowest-precision float input, whichever is larger.
    """

    factor: float = 2.0
    floor: float = 4.0


@dataclass(frozen=True, kw_only=True)
class Forbidden:
    """Operators whose use defeats the purpose, seen at run time below autograd.

    operators: ATen names without overload, such as "aten._softmax"; a name that ends in * is a prefix; "*" is every
        operator but views; a name that starts with ! is allowed in spite of a prefix. With any operator forbidden,
        ways past the dispatcher (numpy, threads, torch.compile) are too.
    instead: one sentence that says what to write.
    """

    operators: tuple[str, ...]
    instead: str


ATTENTION = ("aten._scaled_dot_product*", "aten.scaled_dot_product_attention", "aten._flash_attention*",
             "aten._efficient_attention*", "aten._cudnn_attention*", "aten._native_multi_head_attention",
             "aten._triton_*", "aten._transformer_encoder*", "flex_attention*")
SOFTMAX = ("aten._softmax*", "aten._log_softmax*", "aten._safe_softmax", "aten.softmax*", "aten.log_softmax*",
           "aten.special_softmax", "aten._masked_softmax*", "aten._sparse_softmax*", "aten._sparse_log_softmax*",
           "aten._nested_tensor_softmax*", "aten.logsumexp", "aten._logsumexp", "aten.special_logsumexp",
           "aten.logcumsumexp", "aten._logcumsumexp", "aten.logaddexp*", *ATTENTION)
MATMUL = ("aten.mm", "aten.bmm", "aten.matmul", "aten.addmm", "aten.baddbmm", "aten.einsum", "aten.mv", "aten.dot")
# For kernel exercises: outside the kernel only make tensors, fill them, look at them through views. What is computed
# there is not computed in the kernel, whichever of PyTorch's thousands of operators does it.
ALL_BUT_MAKING = ("*", "!aten.empty*", "!aten.new_empty*", "!aten.zeros*", "!aten.new_zeros*", "!aten.zero_",
                  "!aten.ones*", "!aten.new_ones*", "!aten.full*", "!aten.new_full*", "!aten.fill*", "!aten.arange*")
ALL_BUT_MAKING_AND_COPIES = (*ALL_BUT_MAKING, "!aten.clone", "!aten.copy_", "!aten._to_copy", "!aten.contiguous",
                             "!aten.constant_pad_nd")


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A known wrong answer. name: a short slug. sentence: completes "This is what you get when …".

    function: runnable, with the exercise's signature; written in plain PyTorch (it also runs on the judge's side).
    caught_by: what refuses it: its output, a forbidden operator, an in-place change, a limit,
        or that it raises.
    recognisable: its output differs from those of the other mistakes, so the report can name it.
    """

    name: str
    sentence: str
    function: Callable[..., Any]
    caught_by: Literal["output", "forbidden", "in_place", "limit", "error"] = "output"
    recognisable: bool = True


@dataclass(frozen=True, kw_only=True)
class XRay:
    """What the compiler must say about the kernels that one call launches on a GPU that need not be there.

    inputs: builds the arguments (real sizes; contents are not read). needs: any of "mma", "wgmma", "tma".
    """

    arch: Literal["sm_75", "sm_80", "sm_89", "sm_90"]
    name: str
    inputs: Callable[[], Mapping[str, Any]]
    needs: tuple[str, ...] = ()
    spills: int = 0


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A speed to reach: time(peer) / time(exercise) >= at_least, both in one run, cache flushed, fresh inputs.

    peer: name in efflab.gpu.peers, called on the same inputs (mapped by `peer_inputs` if given).
    gpu: part of the device's name where the bar is judged ("H200"), None for every CUDA GPU;
        elsewhere the ratio is shown, not judged.
    flops, bytes: of one call, for TFLOP/s and TB/s and for the physical limit.
    stretch: a ratio to be proud of.
    """

    name: str
    peer: str
    at_least: float
    inputs: Callable[[Draw], Mapping[str, Any]]
    peer_inputs: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    gpu: str | None = None
    flops: float = 0.0
    bytes: float = 0.0
    stretch: float | None = None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """An exercise whose answer is a Triton kernel: it must be launched, pass the x-rays, and on a GPU the bars."""

    xrays: tuple[XRay, ...] = ()
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One function that a learner writes.

    reference: the same function in float64 PyTorch, written apart from the solution; gets float inputs in float64.
    baseline: the same computation in PyTorch at the inputs' own dtype; by default the reference on the
        inputs as they are. Its error sets the tolerance.
    cases: yields the cases for one seed; values are fresh for each seed.
    hints: from a nudge to nearly the answer.
    """

    chapter: str
    name: str
    summary: str
    reference: Callable[..., Any]
    cases: Callable[[Draw], Iterable[Case]]
    outputs: tuple[Output, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, ...]
    points: int
    minutes: int
    difficulty: Literal["easy", "medium", "hard"]
    baseline: Callable[..., Any] | None = None
    tolerance: Tolerance = field(default_factory=Tolerance)
    forbidden: Forbidden | None = None
    kernel: Kernel | None = None

    @property
    def id(self) -> str:
        return f"{self.chapter}.{self.name}"
