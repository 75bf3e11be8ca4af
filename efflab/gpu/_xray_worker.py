"""A process of its own that compiles one function's kernels for GPUs that are not there. Started by _xray_run.py.

It reads one request (JSON, standard input), imports torch and Triton once, and forks a child for each job. The
child loads the function's source in compiled mode, calls the function with torch.cuda and Triton's driver playing
the target GPU, and compiles each launch instead of running it: Triton's own JIT does the specialising. One JSON
line a job goes to the request's "out" file; a child that crashes or takes too long loses its own job alone.
"""

from __future__ import annotations
import __future__ as future

import ast
import gc
import json
import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from efflab.gpu import _compiled, _specs, _xray_children
from efflab.gpu.targets import Target, target

MAX_KERNELS = 32            # different kernels of one call that are looked at
MAX_CONFIGS = 8             # configurations of one autotuned kernel that are looked at


def play_gpu(card: Target) -> None:
    """Make torch.cuda and Triton's driver answer as the target GPU would."""
    import triton
    from triton.backends.compiler import GPUTarget

    major, minor = card.capability
    properties = SimpleNamespace(
        name=card.card, major=major, minor=minor, total_memory=card.memory_gib << 30, warp_size=32,
        multi_processor_count=card.processors, L2_cache_size=card.l2_mib << 20, regs_per_multiprocessor=65536,
        shared_memory_per_block=48 << 10, shared_memory_per_block_optin=card.shared_limit)
    answers: dict[str, Any] = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_capability": lambda device=None: (major, minor), "get_device_name": lambda device=None: card.card,
        "get_device_properties": lambda device=None: properties, "synchronize": lambda device=None: None,
        "is_bf16_supported": lambda including_emulation=True: major >= 8}
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    code = major * 10 + minor
    utils = SimpleNamespace(get_device_properties=lambda device=None: {
        "max_shared_mem": card.shared_limit, "multiprocessor_count": card.processors, "warpSize": 32,
        "max_num_regs": 65536})
    triton.runtime.driver.set_active(SimpleNamespace(       # type: ignore[attr-defined]
        get_current_device=lambda: code,                    # one for each target: compiled kernels are kept by device
        get_current_stream=lambda device=None: 0, get_current_target=lambda: GPUTarget("cuda", code, 32),
        get_active_torch_device=lambda: torch.device("cpu"), get_device_interface=lambda: torch.cuda, utils=utils))


class Launches:
    """Catches kernel launches and compiles them. found: one entry (plain data) for each different kernel."""

    def __init__(self, tools: dict[str, str], log: Path) -> None:
        self.tools, self.log = tools, log
        self.found: list[dict[str, Any]] = []
        self._seen: set[tuple[str, str | None]] = set()

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Within this context `kernel[grid](...)` compiles and does not run."""
        import triton

        interface = triton.KernelInterface
        original = interface.__getitem__
        interface.__getitem__ = lambda kernel, grid: (      # type: ignore[method-assign, assignment]
            lambda *args, **kwargs: self.launch(kernel, grid, args, kwargs))
        try:
            yield
        finally:
            interface.__getitem__ = original                # type: ignore[method-assign]

    def launch(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
               config: str | None = None) -> None:
        """Compile one launch: each configuration of an autotuned kernel, the chosen values of one with heuristics."""
        if len(self.found) >= MAX_KERNELS:
            return
        if hasattr(kernel, "params"):
            self._compile(kernel, grid, args, kwargs, config)
            return
        named = dict(zip(kernel.arg_names, args, strict=False))
        if not hasattr(kernel, "configs"):
            chosen = {name: choose({**named, **kwargs}) for name, choose in kernel.values.items()}
            self.launch(kernel.fn, grid, args, {**kwargs, **chosen}, config)
            return
        kernel.nargs = named
        for each in kernel.prune_configs(kwargs)[:MAX_CONFIGS]:
            if each.pre_hook is not None:
                each.pre_hook({**named, **kwargs, **each.all_kwargs()})
            self.launch(kernel.fn, grid, args, {**kwargs, **each.all_kwargs()}, str(each))

    def _compile(self, kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 config: str | None) -> None:
        entry: dict[str, Any] = {"kernel": kernel.fn.__name__, "config": config,
                                 "grid": _grid(grid, kernel.arg_names, args, kwargs)}
        printed_before = self.log.stat().st_size
        try:
            compiled = kernel.run(*args, grid=grid, warmup=True, **kwargs)
            key = (compiled.hash, config)
            if key not in self._seen:
                entry |= {"shared_bytes": compiled.metadata.shared, "num_warps": compiled.metadata.num_warps,
                          **_compiled.read(compiled.asm["ptx"], compiled.asm["cubin"], self.tools)}
        except Exception as error:
            printed = self.log.read_bytes()[printed_before:].decode(errors="replace")
            entry["error"] = short_error(error, printed)
            key = (f"{kernel.fn.__name__}: {entry['error']}", config)
        if key not in self._seen:
            self._seen.add(key)
            self.found.append(entry)


def _grid(grid: Any, names: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int] | None:
    try:
        value = grid({**dict(zip(names, args, strict=False)), **kwargs}) if callable(grid) else grid
        return [int(n) for n in value]
    except Exception:
        return None         # told for information only; a wrong grid also fails where the kernel runs


def short_error(error: BaseException, printed: str) -> str:
    """The compiler's message in a line or three: the innermost place in the kernel's source, and what is wrong."""
    while getattr(error.__cause__, "node", None) is not None:
        assert error.__cause__ is not None
        error = error.__cause__
    line = getattr(getattr(error, "node", None), "lineno", None)
    source = getattr(error, "src", None)
    if line is not None and isinstance(source, str):
        code = source.splitlines()[line - 1].strip()
        message = getattr(error, "error_message", None) or error.__cause__ or type(error).__name__
        return f"at `{code}`: {' '.join(str(message).split())[:400]}"
    told = [m[1].strip() for m in re.finditer(r"\b(?:error|fatal)\s*:\s*(\S.*)", f"{printed}\n{error}", re.IGNORECASE)]
    plain = str(error).strip().splitlines()
    return f"{type(error).__name__}: {(told + plain + ['no message'])[0][:400]}"


def load_definitions(source: str, filename: str, name: str) -> tuple[ModuleType, list[BaseException]]:
    """The source as a module, statement by statement. One that fails is noted and the rest goes on, as in grading:
    a submission's notebook may import pictures, or answers that are out of sight there."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = filename
    failures: list[BaseException] = []
    body = ast.parse(source, filename).body
    later = any(isinstance(s, ast.ImportFrom) and s.module == "__future__" for s in body)
    flags = future.annotations.compiler_flag if later else 0
    for statement in body:
        try:
            code = compile(ast.Module([statement], []), filename, "exec", flags=flags, dont_inherit=True)
            exec(code, module.__dict__)
        except (Exception, SystemExit) as error:
            failures.append(error)
    return module, failures


def run_job(job: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Compile what `function` launches for one target and one set of inputs."""
    play_gpu(target(job["arch"]))
    launches = Launches(request["tools"], Path(request["log"]))
    try:
        module, failures = load_definitions(request["source"], request["filename"], "efflab_xray_subject")
        function = getattr(module, request["function"], None)
        if function is None:
            raise failures[0] if failures else NameError(f"the source defines no {request['function']!r}")
        with launches.caught():
            function(**_specs.build({"kind": "dict", "items": job["inputs"]}))
    except BaseException as error:          # also SystemExit: one job's end is not the worker's
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f" (line {frame.lineno}: {frame.line})" if frame.filename == request["filename"] else ""
        return {"kernels": launches.found, "error": f"{type(error).__name__}: {str(error)[:400]}{place}"}
    return {"kernels": launches.found, "error": None}


def answer(job: dict[str, Any], request: dict[str, Any]) -> None:
    """In a child: answer one job. What learners' code prints and what the compiler says from C++ go to its own log."""
    with open(request["log"], "ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    _xray_children.tell(request, job, run_job(job, request))


def main() -> None:
    request = json.load(sys.stdin)
    os.environ.pop("TRITON_INTERPRET", None)        # importing efflab set it: there is no GPU to be seen here
    os.environ["TRITON_CACHE_DIR"] = str(Path(request["log"]).parent / "triton")
    sys.path[:] = [*dict.fromkeys([*sys.path, *request["path"]])]
    import triton
    import triton.backends.nvidia.compiler  # these two: what a compile would import, once for all children
    import triton.compiler.code_generator

    if not isinstance(triton.language.cdiv, triton.JITFunction):
        raise RuntimeError("Triton came up in its interpreter; something imports it together with efflab")
    gc.collect()
    gc.freeze()                                     # children share these pages as long as nobody touches them
    _xray_children.work_through(request, answer)


if __name__ == "__main__":
    main()
