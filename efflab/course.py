"""The one table of parts and chapters, in order, and the one loader of the course's and the learner's code.

A slug names a chapter everywhere: notebooks/NN_slug.md, solutions/slug.py, exercises/slug.py, efflab/chapters/slug/.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import linecache
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from efflab.checking.exercise import Exercise


class UnknownChapter(LookupError):
    """No chapter has this slug; the message says which ones come close."""


class UnknownExercise(LookupError):
    """No exercise has this name; the message says which ones come close."""


@dataclass(frozen=True)
class Chapter:
    """number: position in the course, 0 for the start page. slug: its name everywhere. builds: what is made."""

    number: int
    slug: str
    title: str
    part: str
    builds: str

    @property
    def file_stem(self) -> str:
        return f"{self.number:02d}_{self.slug}"

    @property
    def ready(self) -> bool:
        """Whether the chapter has been written: its checks are there."""
        return (Path(__file__).parent / "chapters" / self.slug / "checks.py").is_file()


_TABLE: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("Start", (
        ("start_here", "Start here", "one small function, checked"),
    )),
    ("Hardware", (
        ("roofline", "The roofline", "memory hierarchy, arithmetic intensity, a prediction for your own GPU"),
        ("kernel_fusion", "Kernel fusion", "fused bias+GELU+dropout, LayerNorm, RMSNorm, cross-entropy"),
        ("online_softmax", "Online softmax", "one-pass softmax, merging, a fused row softmax kernel"),
        ("flash_attention", "FlashAttention", "the FlashAttention forward in Triton, from FA1's loops to FA2's"),
        ("flash_attention_backward", "FlashAttention backward", "backward kernels, an autograd function that trains"),
        ("hopper_attention", "Attention on Hopper", "TMA descriptors, warp specialisation, FP8, FlexAttention"),
        ("low_precision", "Low precision", "number formats to the bit, fake quantisation, straight-through estimator"),
    )),
    ("Architectures", (
        ("sparse_attention", "Sparse attention", "windows, strides, Longformer, BigBird; a block-sparse kernel"),
        ("linear_attention", "Linear attention", "Linear Transformer, Performer"),
        ("mixture_of_experts", "Mixture of experts", "gating, balance, capacity, a grouped GEMM kernel"),
        ("mamba_scan", "The Mamba scan", "state spaces, selective scan, a chunked scan kernel"),
        ("retention", "Retention", "RetNet's three forms"),
        ("adaptive_depth", "Adaptive depth", "early exit, mixture of depths"),
    )),
    ("Inference", (
        ("kv_cache", "KV cache", "KV cache, MQA and GQA, a flash-decoding kernel"),
        ("quantization", "Quantization", "round-to-nearest, GPTQ, AWQ, GGUF, a W4A16 kernel"),
        ("speculative_decoding", "Speculative decoding", "exact rejection sampling, greedy, prompt lookup"),
        ("serving", "Serving", "PagedAttention, continuous batching, a small engine"),
    )),
    ("Training", (
        ("mixed_precision", "Mixed precision", "bf16, fp16 and dynamic loss scaling"),
        ("gradient_checkpointing", "Gradient checkpointing", "recomputation, √L, random numbers"),
        ("memory_efficient_optimizers", "Memory-efficient optimizers", "Adam's bytes, Adafactor, CAME, Sophia"),
        ("scaling_and_data", "Scaling and data", "Chinchilla, curriculum, repetition and replay"),
    )),
    ("Many GPUs", (
        ("tensor_parallel", "Tensor parallel", "column and row parallel, Megatron's f and g"),
        ("pipeline_parallel", "Pipeline parallel", "GPipe, 1F1B, bubbles"),
        ("zero", "ZeRO", "stages 1, 2, 3"),
        ("ring_attention", "Ring attention", "ring, striped, zigzag"),
    )),
    ("Frontier", (
        ("frontier", "The frontier", "one model, every technique, what stacks and what does not"),
    )),
)

PARTS: tuple[str, ...] = tuple(part for part, _ in _TABLE)
CHAPTERS: tuple[Chapter, ...] = tuple(
    Chapter(number, slug, title, part, builds)
    for number, (part, (slug, title, builds)) in enumerate((part, row) for part, rows in _TABLE for row in rows)
)


def ready_chapters() -> tuple[Chapter, ...]:
    """The chapters that have been written, in order."""
    return tuple(c for c in CHAPTERS if c.ready)


def chapter(slug: str) -> Chapter:
    """The chapter of this slug; "NN_slug" and "slug.py" are understood too. Raises UnknownChapter."""
    name = re.sub(r"^\d\d_", "", Path(slug).name.split(".")[0])
    by_slug = {c.slug: c for c in CHAPTERS}
    if name in by_slug:
        return by_slug[name]
    close = difflib.get_close_matches(name, by_slug, n=2, cutoff=0.5)
    suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UnknownChapter(f"There is no chapter {slug!r}.{suggestion} "
                         f"Written so far: {', '.join(c.slug for c in ready_chapters())}.")


def exercises(slug: str) -> tuple[Exercise, ...]:
    """The exercises of a chapter in lesson order. Raises UnknownChapter, also for one not written yet."""
    c = chapter(slug)
    if not c.ready:
        raise UnknownChapter(f"Chapter {c.number:02d} {c.slug} is planned and not written yet. "
                             f"Written so far: {', '.join(r.slug for r in ready_chapters())}.")
    return importlib.import_module(f"efflab.chapters.{c.slug}.checks").EXERCISES


def find_exercise(name: str, prefer: str | None = None) -> Exercise:
    """The exercise called "slug.function" or just "function". prefer: the chapter to look in first."""
    slug, _, function = name.rpartition(".")
    order = [slug] if slug else sorted((c.slug for c in ready_chapters()), key=lambda s: s != prefer)
    known: list[str] = []
    for s in order:
        for exercise in exercises(s):
            if exercise.name == function:
                return exercise
            known.append(exercise.name)
    close = difflib.get_close_matches(function, known, n=2, cutoff=0.5)
    suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
    raise UnknownExercise(f"No exercise is called {name!r}.{suggestion} An exercise is known by its function's name; "
                          "keep the name that the lesson gives it.")


def solution_module(slug: str) -> ModuleType:
    """The course's own answers, solutions/slug.py."""
    return importlib.import_module(f"solutions.{chapter(slug).slug}")


def solution_of(exercise: Exercise) -> Callable[..., Any]:
    return getattr(solution_module(exercise.chapter), exercise.name)


def load_file(path: str | Path, name: str | None = None) -> ModuleType:
    """Run a .py file as a fresh module. Its text is put into linecache, which Triton's @jit reads."""
    path = Path(path).resolve()
    return load_source(path.read_text(encoding="utf-8"), str(path), name or f"efflab_loaded_{path.stem}")


def load_source(source: str, filename: str, name: str) -> ModuleType:
    """Run source text as a fresh module called `name`, as if it were the file `filename`."""
    module = ModuleType(name)
    module.__file__ = filename
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    sys.modules[name] = module
    exec(compile(source, filename, "exec"), module.__dict__)
    return module


def root() -> Path | None:
    """The checkout this efflab belongs to, or None when it was installed without one (Colab)."""
    top = Path(__file__).resolve().parents[1]
    return top if (top / "notebooks").is_dir() and (top / "pyproject.toml").is_file() else None


def repository() -> str:
    """The one address of the course's repository: pyproject.toml, [project.urls] Repository."""
    top = root()
    if top is not None:
        found = re.search(r'^Repository\s*=\s*"([^"]+)"', (top / "pyproject.toml").read_text(encoding="utf-8"), re.M)
        if found:
            return found.group(1)
    for entry in importlib.metadata.metadata("efflab").get_all("Project-URL") or ():
        label, _, address = entry.partition(", ")
        if label == "Repository":
            return address
    raise RuntimeError("efflab's repository address is missing: set [project.urls] Repository in pyproject.toml.")
