"""The judge: cases out, observations in, a Report at the end. It never calls the learner's function itself."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from efflab.checking import compare
from efflab.checking.draw import Draw
from efflab.checking.exercise import Case, Exercise, Mistake
from efflab.checking.guard import guard
from efflab.checking.observe import Observation, Raised, call
from efflab.checking.report import Problem, Report

RunCase = Callable[[Case], Observation]
_AFTER_FAILURE_SECONDS = 4.0        # how long to look for more failing cases, to see the pattern


def examine(exercise: Exercise, run_case: RunCase, *, seed: int, device: str | torch.device = "cpu",
            further: Callable[[], list[Problem]] | None = None, require_launch: bool = True) -> Report:
    """Judge what `run_case` observes for every case of one seed.

    further: judges that run after all cases passed (the compiler, the clock); it returns their problems.
    require_launch: whether a kernel exercise must launch a kernel.
    """
    start, failed_at = time.perf_counter(), None
    failing: list[tuple[Case, Observation, Problem]] = []
    right: list[Case] = []
    for case in exercise.cases(Draw(seed, device)):
        if case.last and failing:
            break
        observation = run_case(case)
        if _not_attempted(exercise, observation):
            return Report.of(exercise, "not_attempted", seed=seed, seconds=time.perf_counter() - start)
        problem = judge(exercise, case, observation, require_launch=require_launch)
        if problem is None:
            right.append(case)
        else:
            failing.append((case, observation, problem))
            if problem.kind != "forbidden" or require_launch:      # a stand-in for a kernel: its values matter
                failed_at = failed_at or time.perf_counter()
            now = time.perf_counter()
            if problem.kind == "error" or now - (failed_at or now) > _AFTER_FAILURE_SECONDS:
                break
    problems = [p for _, _, p in failing]
    values_right = right + [c for c, _, p in failing if p.kind in ("forbidden", "limit")]
    mistake = diagnose(exercise, [(c, o) for c, o, p in failing if p.kind == "values"], values_right)
    if not failing and further is not None:
        problems = further()
    return Report.of(exercise, _outcome(problems), seed=seed, seconds=time.perf_counter() - start, passed=len(right),
                     problems=problems, mistake=mistake)


def _outcome(problems: list[Problem]) -> Any:
    if not problems:
        return "passed"
    return "error" if problems[0].kind == "error" else "failed"


def _not_attempted(exercise: Exercise, observation: Observation) -> bool:
    error = observation.error
    return observation.empty or (error is not None and error.stub == exercise.name)


def judge(exercise: Exercise, case: Case, observation: Observation, *, require_launch: bool = True) -> Problem | None:
    """What is wrong with one observation, or None. The order is that of what a learner should mend first."""
    about = case_line(case)
    error = observation.error
    if error is not None:
        return Problem("error", case.name, about, *_error_text(exercise, error))
    expected = (case.expect or exercise.reference)(**in_float64(case.inputs))
    difference = compare.structure(observation.value, expected, exercise.outputs, case.inputs)
    if difference is None and observation.changed:
        return Problem("in_place", case.name, about, f"the function changed its input {', '.join(observation.changed)}",
                       ("Inputs belong to the caller: write results into tensors of your own.",))
    if difference is None and observation.overrun:
        return Problem("overrun", case.name, about, "something was written past the end of a buffer it made",
                       ("Mask the store: the last block usually reaches past the end.",))
    if difference is None:
        difference = compare.values(observation.value, expected, _baselines(exercise, case), exercise.outputs,
                                    exercise.tolerance, case.inputs, case.exact)
    if difference is not None:
        return Problem(difference.kind, case.name, about, difference.headline, difference.details)
    return _cost(exercise, case, observation, about, require_launch)


def _cost(exercise: Exercise, case: Case, observation: Observation, about: str, require_launch: bool) -> Problem | None:
    """Right values, reached in a way that the exercise rules out."""
    limit = case.limit

    def problem(kind: str, headline: str, *details: str) -> Problem:
        return Problem(kind, case.name, about, headline, tuple(d for d in details if d))

    if observation.forbidden and exercise.forbidden is not None:
        return problem("forbidden", f"the values are right, but it calls {', '.join(observation.forbidden)}",
                       exercise.forbidden.instead)
    if exercise.kernel is not None and require_launch and not observation.launches:
        return problem("forbidden", "the values are right, but no Triton kernel was launched",
                       "This exercise asks for a @triton.jit kernel, launched as kernel[grid](…).")
    if limit.extra_bytes is not None and observation.peak_bytes > limit.extra_bytes:
        return problem("limit", f"it held {observation.peak_bytes:,} bytes of its own at once; "
                       f"{limit.extra_bytes:,} are allowed here", limit.because)
    if limit.flops is not None and observation.flops > limit.flops:
        return problem("limit", f"it spent {observation.flops:,} FLOPs in matrix products; "
                       f"{limit.flops:,} are allowed here", limit.because)
    if limit.launches is not None and len(observation.launches) > limit.launches:
        return problem("limit", f"it launched {len(observation.launches)} kernels; {limit.launches} are allowed here",
                       limit.because)
    return None


def in_float64(value: Any) -> Any:
    """The same nested inputs with float tensors in float64."""
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.dtype.is_floating_point else value.detach()
    if isinstance(value, Mapping):
        return {k: in_float64(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(in_float64(v) for v in value)
    return value


def _baselines(exercise: Exercise, case: Case) -> list[Any]:
    """Answers that are off by rounding alone; none for drives and exact cases.

    The first is the same computation in PyTorch at the inputs' dtype. The others are the reference on inputs that
    differ in the last bit of float32, the precision that sums are kept in: where a problem magnifies rounding, they
    show by how much, and a right answer is not refused for one unlucky element.
    """
    if case.drive is not None or case.expect is not None or case.exact:
        return []
    plain = (exercise.baseline or exercise.reference)(**case.inputs)
    generator = torch.Generator().manual_seed(0)
    return [plain, *(exercise.reference(**_nudged(case.inputs, generator)) for _ in range(3))]


def _nudged(value: Any, generator: torch.Generator) -> Any:
    """The same nested inputs in float64, each float moved by up to one unit of its last place in float32."""
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        unit = torch.finfo(torch.float64 if value.dtype == torch.float64 else torch.float32).eps
        noise = torch.rand(value.shape, generator=generator, dtype=torch.float64).to(value.device) * 2 - 1
        return value.detach().double() * (1 + unit * noise)
    if isinstance(value, Mapping):
        return {k: _nudged(v, generator) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_nudged(v, generator) for v in value)
    return value


def diagnose(exercise: Exercise, failing: list[tuple[Case, Observation]], right: list[Case]) -> Mistake | None:
    """The known mistake that explains the most: equal outputs where the learner fails, right ones where they do not."""
    best: tuple[int, Mistake] | None = None
    for mistake in exercise.mistakes:
        if not failing or not _same_as(exercise, mistake, *failing[0]):
            continue
        score = sum(_same_as(exercise, mistake, case, observation) for case, observation in failing[1:4])
        score += sum(_right_on(exercise, mistake, case) for case in right)
        if best is None or score > best[0]:
            best = (score, mistake)
    return best[1] if best else None


def _right_on(exercise: Exercise, mistake: Mistake, case: Case) -> bool:
    """Whether the mistake gives the right answer on this case."""
    with contextlib.suppress(Exception):
        observation = Observation(value=call(mistake.function, copied(case.inputs), case.drive))
        return judge(exercise, case, observation, require_launch=False) is None
    return False


def _same_as(exercise: Exercise, mistake: Mistake, case: Case, observation: Observation) -> bool:
    """Whether the mistake gives what was observed, far closer than either is to the expected values."""
    with contextlib.suppress(Exception):
        theirs = compare.as_tuple(observation.value, exercise.outputs)
        wrong = compare.as_tuple(call(mistake.function, copied(case.inputs), case.drive), exercise.outputs)
        right = compare.as_tuple((case.expect or exercise.reference)(**in_float64(case.inputs)), exercise.outputs)
        return all(_near(a, b, c) for a, b, c in zip(theirs, wrong, right, strict=True))
    return False


def _near(observed: Any, wrong: Any, right: Any) -> bool:
    if not isinstance(observed, torch.Tensor):
        return observed == wrong or (isinstance(observed, float) and isinstance(wrong, (int, float))
                                     and abs(observed - wrong) <= 1e-6 * abs(wrong))
    a, b, c = (t.double().to(observed.device) for t in (observed, wrong, right))
    if a.shape != b.shape or not all(torch.equal(f(a), f(b)) for f in (torch.isnan, torch.isposinf, torch.isneginf)):
        return False
    finite = a.isfinite()
    apart = (a - b)[finite].abs()
    off = (a - c)[finite & c.isfinite()].abs()
    scale = b[finite].abs().max().item() if bool(finite.any()) else 0.0
    rounding = 4 * torch.finfo(observed.dtype).eps * scale if observed.dtype.is_floating_point else 0.0
    return not apart.numel() or apart.max().item() <= max(0.05 * (off.max().item() if off.numel() else 0.0), rounding)


def copied(value: Any) -> Any:
    """A copy of nested inputs, so that a mistake that writes in place harms nothing. Guarded as the learner's were:
    with the same strides, and NaN between the rows for those who ignore them."""
    if isinstance(value, torch.Tensor):
        return guard(value, "").tensor
    if isinstance(value, Mapping):
        return {k: copied(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copied(v) for v in value)
    return value


def case_line(case: Case) -> str:
    """The inputs in one line: q (1, 2, 17, 16) float16, causal=True."""
    parts = []
    for name, value in case.inputs.items():
        if isinstance(value, torch.Tensor):
            text = f"{name} {tuple(value.shape)} {compare.dtype_name(value.dtype)}"
            if not value.is_contiguous():
                text += f" strides {value.stride()}"
            parts.append(text)
        elif isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
            parts.append(f"{name} {type(value).__name__} of {len(value)}")
        else:
            parts.append(f"{name}={value!r}"[:80])
    return ", ".join(parts)


def _error_text(exercise: Exercise, error: Raised) -> tuple[str, tuple[str, ...]]:
    if error.stub is not None and error.stub != exercise.name:
        return f"it calls {error.stub}, which is not written yet", (f"Write {error.stub} first, or use the course's.",)
    if error.kind in ("SyntaxError", "IndentationError"):
        return (f"{error.kind}: {error.message}", (error.where,) if error.where else ())
    details = [f"in {error.where}"] if error.where else []
    advice = _ADVICE.get(error.kind)
    if "interpreter" in error.kind.lower() and advice is None:
        advice = "The kernel failed in Triton's interpreter; the message above is its own."
    return f"{error.kind}: {error.message}", (*details, *([advice] if advice else []))


_ADVICE = {
    "OutOfMemoryError": "The GPU ran out of memory. What this call held has been freed; use fewer or smaller copies.",
    "MemoryError": "It asked for more memory than this machine has.",
    "Timeout": "Does a loop end? An index that is never advanced is the usual cause.",
    "CompilationError": "The kernel does not compile; the message above is the compiler's.",
}
