"""What the compiler says about a function's kernels, for GPUs that need not be there.

A fresh process loads the source in compiled mode, calls the function with torch.cuda playing the target GPU,
catches each kernel launch, and compiles it: shared memory, registers, spills, tensor cores, TMA. Contents of
the inputs are not read, so real sizes cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from efflab.gpu import _xray_jobs, _xray_run
from efflab.gpu._xray_pending import Pending
from efflab.gpu._xray_run import Crew, Wrap, XRayUnavailable
from efflab.gpu.source import NoSource, source_of
from efflab.gpu.targets import TARGETS, target

if TYPE_CHECKING:
    from efflab.checking.exercise import Exercise, XRay

__all__ = ["KernelXRay", "Pending", "XRayUnavailable", "XRays", "available", "judge", "show", "source_of", "start",
           "xray_launches"]

ANY = 1 << 30              # spills that are all right
MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True, kw_only=True)
class KernelXRay:
    """One compiled kernel. shared_bytes of shared_limit for one program; registers and spills (registers that had
    to live in memory) of one thread; mma: uses tensor cores in any form; wgmma: Hopper's warp-group form;
    tma: bulk copies by descriptor. config: an autotuned kernel's. grid: programs launched, where it could be told.
    error: why there is nothing to tell. case: the inputs' name."""

    kernel: str
    arch: str
    shared_limit: int
    shared_bytes: int = 0
    registers: int = 0
    spills: int = 0
    num_warps: int = 0
    mma: bool = False
    wgmma: bool = False
    tma: bool = False
    config: str | None = None
    grid: tuple[int, ...] | None = None
    error: str | None = None
    case: str = ""

    @property
    def fits(self) -> bool:
        """Whether the GPU can launch it."""
        return self.error is None and self.shared_bytes <= self.shared_limit and not self.grid_too_large

    @property
    def grid_too_large(self) -> bool:
        return self.grid is not None and any(n > most for n, most in zip(self.grid, MAX_GRID, strict=False))

    def as_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"fits": self.fits}


class XRays(tuple[KernelXRay, ...]):
    """Several x-rays that display themselves: a table in notebooks and as text."""

    def __str__(self) -> str:
        from efflab.gpu import _xray_view
        return _xray_view.text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from efflab.gpu import _xray_view
        return _xray_view.html(self)


def available() -> str | None:
    """None when kernels can be compiled here, else the reason why not."""
    try:
        _xray_run.tools()
    except XRayUnavailable as reason:
        return str(reason)
    return None


def xray_launches(module_path_or_source: str | Path, function_name: str, inputs: Mapping[str, Any],
                  arch: str | Sequence[str] = tuple(TARGETS), *, wrap: Wrap | None = None,
                  cached: bool = True) -> XRays:
    """Compile every kernel that `function_name(**inputs)` launches, for one or several architectures.

    module_path_or_source: a .py file, or source text. wrap: puts the process into a sandbox.
    Raises XRayUnavailable, UnknownArch; what is wrong with the learner's code is told in `error`.
    """
    source, filename = _source_text(module_path_or_source)
    arches = [target(a).arch for a in ([arch] if isinstance(arch, str) else arch)]
    jobs = _xray_jobs.jobs_for(source, function_name, [(a, inputs) for a in arches])
    told = _xray_run.answers(source, function_name, jobs, filename=filename, wrap=wrap, cached=cached)
    return XRays(x for job in jobs for x in _entries(function_name, job["arch"], told[job["key"]], ""))


def exercise_xrays(exercise: Exercise, source: str | Path, *, arch: Sequence[str] | None = None,
                   wrap: Wrap | None = None, crew: Crew | None = None) -> list[tuple[XRay, list[KernelXRay]]]:
    """The x-rays that an exercise asks for, each with what the compiler told.

    arch: only these; for one that the exercise does not ask for, its first x-ray's inputs are compiled, and only
    whether they fit is judged. crew: dismissing it, from another thread, ends the call early.
    """
    text, filename = _source_text(source)
    asked = exercise.kernel.xrays if exercise.kernel else ()
    wanted = list(asked) if arch is None else [x for a in arch for x in _for_arch(asked, a)]
    jobs = _xray_jobs.jobs_for(text, exercise.name, [(x.arch, x.inputs()) for x in wanted])
    told = _xray_run.answers(text, exercise.name, jobs, filename=filename, wrap=wrap, crew=crew)
    return [(x, _entries(exercise.name, x.arch, told[job["key"]], x.name)) for x, job in zip(wanted, jobs, strict=True)]


def _for_arch(asked: Sequence[XRay], arch: str) -> list[XRay]:
    given = [x for x in asked if x.arch == arch]
    return given or [replace(x, arch=arch, needs=(), spills=ANY) for x in asked[:1]]     # type: ignore[arg-type]


def start(exercise: Exercise, source: str | Path | Callable[..., Any], *, wrap: Wrap | None = None) -> Pending:
    """Begin to judge an exercise's answer while the caller goes on: `.problems()` waits, `.cancel()` calls it off.

    source: the answer's module as text or path, or the function itself. Where nothing can be compiled, `.not_run`
    says why and there are no problems: put it into the report.
    """
    if exercise.kernel is None or not exercise.kernel.xrays:
        return Pending(None)
    try:
        _xray_run.tools()
        given = source_of(source) if callable(source) else source
    except (XRayUnavailable, NoSource) as reason:
        return Pending(None, not_run=str(reason))
    return Pending(lambda crew: judge(exercise, given, wrap=wrap, crew=crew))


def judge(exercise: Exercise, source: str | Path, *, wrap: Wrap | None = None, crew: Crew | None = None) -> list[str]:
    """What the compiler finds wrong with an exercise's answer, in plain words; empty when all is well.

    source: the answer's module as text or path (`source_of(function)` gives it for a notebook's function).
    """
    seen = exercise_xrays(exercise, source, wrap=wrap, crew=crew)
    return list(dict.fromkeys(p for x, kernels in seen for p in judge_one(x, kernels)))


def judge_one(xray: XRay, kernels: Sequence[KernelXRay]) -> list[str]:
    """Problems of one x-ray. Of an autotuned kernel's configurations one good one is enough."""
    where = f"{xray.arch}, {xray.name}" if xray.name else xray.arch
    problems = [p for group in _by_kernel(kernels) for p in min((_faults(k, xray.spills) for k in group), key=len)]
    good = [k for k in kernels if k.error is None]
    for need in xray.needs:
        if good and not any(getattr(k, need) for k in good):
            problems.append(f"{', '.join(dict.fromkeys(k.kernel for k in good))} {LACKS[need]}")
    return [f"{where}: {p}" for p in problems]


LACKS = {
    "mma": "does not use the tensor cores: is the product a tl.dot of float16 or bfloat16 tiles?",
    "wgmma": "does not use Hopper's warp-group products (wgmma): they take tl.dot with at least 64 rows, "
             "num_warps of at least 4, and half-precision operands",
    "tma": "does not load tiles by TMA: pass a TensorDescriptor and load from it, or make one in the kernel",
}


def _faults(k: KernelXRay, spills: int) -> list[str]:
    if k.error is not None:
        return [f"{k.kernel}: {k.error}"]
    found = []
    if k.shared_bytes > k.shared_limit:
        found.append(f"{k.kernel} needs {_kib(k.shared_bytes)} of shared memory, a {target(k.arch).card} has "
                     f"{_kib(k.shared_limit)} for one program: smaller tiles or fewer stages")
    if k.spills > spills:
        found.append(f"{k.kernel} spills {k.spills} registers a thread to memory ({spills} allowed): "
                     "smaller tiles, more warps, or fewer values alive at once")
    if k.grid_too_large:
        found.append(f"{k.kernel} is launched on a grid of {k.grid}; CUDA takes at most {MAX_GRID}: "
                     "put the large axis first")
    return found


def _by_kernel(kernels: Iterable[KernelXRay]) -> list[list[KernelXRay]]:
    groups: dict[Any, list[KernelXRay]] = {}
    for i, k in enumerate(kernels):
        groups.setdefault(k.kernel if k.config else i, []).append(k)
    return list(groups.values())


def _entries(function: str, arch: str, answer: Mapping[str, Any], case: str) -> list[KernelXRay]:
    common: dict[str, Any] = {"arch": arch, "shared_limit": target(arch).shared_limit, "case": case}
    found = [KernelXRay(**{**entry, "grid": tuple(entry["grid"]) if entry.get("grid") else None}, **common)
             for entry in answer["kernels"]]
    error = answer["error"]
    if error is None and not found:
        error = "the function launched no Triton kernel"
    return found if error is None else [*found, KernelXRay(kernel=function, error=error, **common)]


def _source_text(source: str | Path) -> tuple[str, str | None]:
    if isinstance(source, Path) or (source.endswith(".py") and "\n" not in source):
        path = Path(source).resolve()
        return path.read_text(encoding="utf-8"), str(path)
    return source, None


def _kib(count: int) -> str:
    return f"{count / 1024:.0f} KiB"


def show(function: Callable[..., Any], inputs: Mapping[str, Any],
         arch: str | Sequence[str] = tuple(TARGETS)) -> XRays:
    """X-ray a function, also one defined in a notebook. The result displays itself.

    inputs: by parameter name; only shapes, dtypes and strides matter.
    """
    return xray_launches(source_of(function), _name_of(function), inputs, arch)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or function.fn.__name__
