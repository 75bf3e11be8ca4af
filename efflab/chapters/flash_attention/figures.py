"""Chapter 04's pictures, drawn with the learner's own functions and with what was measured on a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from efflab import show
from efflab.gpu import limits, results

# References are imported where they are used: a submission's notebook imports this module, and they are hidden there.
Attention = Callable[..., tuple[torch.Tensor, torch.Tensor]]
Traffic = Callable[[int, int, int, int, int, str], int]
SLUG = "flash_attention"


def score_matrix_pain(naive_attention: Attention) -> None:
    """Time and size of the score matrix on this machine, as N doubles."""
    on_gpu = torch.cuda.is_available()
    heads, sizes = (16, (1024, 2048, 4096)) if on_gpu else (1, (512, 1024, 2048))
    device, dtype = ("cuda", torch.float16) if on_gpu else ("cpu", torch.float32)
    rows = []
    for N in sizes:
        q, k, v = torch.randn(3, 1, heads, N, 64, device=device, dtype=dtype)
        ms = min(_milliseconds(partial(naive_attention, q, k, v)) for _ in range(3))
        rows.append([N, round(ms, 2), heads * N * N * q.element_size() / 1e6, q.numel() * q.element_size() / 1e6])
    show.table(rows, ["N", "ms", "scores, MB", "q, MB"])


def _milliseconds(call: Callable[[], Any]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3


@show.style()
def traffic_by_length(hbm_traffic: Traffic, D: int = 128, block: int = 128) -> None:
    """The learner's counts against N, and beside them the extra memory, both for one head in 16 bits."""
    sizes = [2**n for n in range(9, 18)]
    fig, (left, right) = show.canvas(1, 2, height=3.3)
    looks = zip(("naive", "fa1", "fa2"), (show.VERMILION, show.ORANGE, show.BLUE), show.MARKERS, strict=False)
    for algorithm, colour, marker in looks:
        moved = [2 * hbm_traffic(N, N, D, block, block, algorithm) / 1e9 for N in sizes]
        left.plot(sizes, moved, color=colour, marker=marker, label=algorithm)
    left.set(title="Traffic", ylabel="GB per head")
    right.plot(sizes, [2 * 2 * N * N / 1e9 for N in sizes], color=show.VERMILION, marker="o", label="naive: S and P")
    right.plot(sizes, [4 * 2 * N / 1e9 for N in sizes], color=show.ORANGE, marker="s", label="fa1: m and l")
    right.plot(sizes, [4 * N / 1e9 for N in sizes], color=show.BLUE, marker="^", label="fa2: lse")
    right.set(title="Extra memory", ylabel="GB per head")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("N = Nq = Nk")
        ax.set_xticks(sizes[::2], [f"{N // 1024}Ki" if N >= 1024 else str(N) for N in sizes[::2]])
        ax.legend()
    gain = hbm_traffic(32768, 32768, D, block, block, "naive") / hbm_traffic(32768, 32768, D, block, block, "fa2")
    show.figure(fig, f"Two log-log plots against N from 512 to 131,072 for D = {D} and tiles of {block}. Left, "
                "traffic: naive, fa1 and fa2 all rise with the square of N on parallel lines; at 32,768 fa2 moves "
                f"{gain:.1f} times less than naive. Right, extra memory: naive rises with N squared, fa1 and fa2 "
                "with N.")


@show.style()
def error_by_dtype(functions: Sequence[Attention]) -> None:
    """The largest error of o against float64 by dtype, with the line that a check draws: twice PyTorch's own."""
    from efflab.chapters.flash_attention import cases, checks

    device = "cuda" if torch.cuda.is_available() else "cpu"
    draw = cases.Draw(7, device)
    fig, ax = show.canvas(height=3.4)
    names = [f.__name__ for f in functions]
    lines, said = [], []
    for x, dtype in enumerate(draw.float_dtypes):
        inputs = cases.qkv(draw, heads=(4, 2), N=(200, 200), D=64, dtype=dtype, causal=True)
        exact, _ = checks.attention_reference(inputs["q"].double(), inputs["k"].double(), inputs["v"].double(), True)
        baseline = _error(checks.attention_baseline, inputs, exact)
        errors = [_error(f, inputs, exact) for f in functions]
        for i, error in enumerate(errors):
            at = x + (i - (len(errors) - 1) / 2) * 0.16
            ax.plot(at, error, show.MARKERS[i], color=show.CYCLE[i], markersize=9, label=names[i] if x == 0 else None)
        lines.append(ax.plot([x - 0.42, x + 0.42], [2 * baseline] * 2, color=show.INK, linestyle="--")[0])
        said.append(f"{_name(dtype)}: {min(errors):.1e} to {max(errors):.1e}, line at {2 * baseline:.1e}")
    lines[0].set_label("2 × PyTorch's own error")
    ax.set_yscale("log")
    ax.set(title="Error of o against float64", ylabel="largest |error|", xlim=(-0.6, len(lines) - 0.4))
    ax.set_xticks(range(len(lines)), [_name(d) for d in draw.float_dtypes])
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    show.figure(fig, f"Largest error of o against float64 for {', '.join(names)}. " + "; ".join(said) + ".")


def _error(function: Attention, inputs: dict[str, Any], exact: torch.Tensor) -> float:
    return (function(**inputs)[0].double() - exact).abs().max().item()


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def measured(gpu: str | None = None) -> dict[str, Any] | None:
    """What `efflab bench flash_attention` found: {"gpu", "date", "bars", "curves", ...}, or None."""
    found = results.load(gpu)
    here = found["chapters"].get(SLUG) if found else None
    return {"gpu": found["gpu"], **here} if found and here else None


NOT_MEASURED = ("No measurements of this chapter are stored here yet. On a machine with an NVIDIA GPU, "
                "`./run bench flash_attention` takes them.")


def bars() -> None:
    """The measured ratios to each peer, one row a bar, with its date and GPU."""
    found = measured()
    if found is None:
        print(NOT_MEASURED)
        return
    rows = [[b["name"].rpartition(", against ")[0], b["peer"], b["tflops"], b["peer_tflops"], b["ratio"], b["at_least"]]
            for b in found["bars"] if b.get("ratio") is not None]
    show.table(rows, ["bf16", "peer", "TFLOP/s", "peer's", "ratio", "asked for"],
               caption=f"flash_attention_fast on {found['gpu']}, {found['date']}, torch {found['torch']}, "
                       f"triton {found['triton']}")


@show.style()
def speed(gpu: str | None = None) -> None:
    """TFLOP/s against N for the kernels and their peers, with the physical limit drawn."""
    found = measured(gpu)
    curves = found["curves"] if found else []
    if not found or not curves:
        print(NOT_MEASURED)
        return
    fig, axes = show.canvas(1, len(curves), height=3.8, sharey=True, squeeze=False)
    peak = limits.peak(found["gpu"])
    said = []
    for ax, curve in zip(axes[0], curves, strict=True):
        for i, (name, values) in enumerate(curve["series"].items()):
            points = [(n, y) for n, y in zip(curve["sizes"], values, strict=True) if y]
            ours = name.startswith("flash_attention")
            ax.plot(*zip(*points, strict=True), color=show.CYCLE[i % 6], marker=show.MARKERS[i % 6], label=name,
                    linestyle="-" if ours else ":", linewidth=2.5 if ours else 1.5)
            said.append(f"{curve['name']}: {name} reaches {max(y for _, y in points):.0f}")
        if peak:
            ax.axhline(peak.flops / 1e12, color=show.INK, linestyle="--", linewidth=1)
            ax.text(curve["sizes"][0], peak.flops / 1e12, "data sheet", va="bottom", fontsize=9)
        ax.set_xscale("log", base=2)
        ax.set_xticks(curve["sizes"], [f"{n // 1024}Ki" if n >= 1024 else str(n) for n in curve["sizes"]])
        ax.set(title=curve["name"], xlabel=curve["axis"])
    axes[0][0].set_ylabel(curves[0]["unit"])
    fig.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    limit = f" The data sheet's limit is {peak.flops / 1e12:.0f}." if peak else ""
    show.figure(fig, f"{curves[0]['unit']} against N on {found['gpu']}. " + "; ".join(said) + "." + limit)


def closing() -> None:
    """The opening's call again: what it must take unfused, and what the fused kernels were measured to take."""
    found = measured()
    name = "N = 8192, D = 64, full, against "
    times = [b for b in (found["bars"] if found else []) if b["name"].startswith(name) and b.get("ms")]
    if not found or not times:
        print(NOT_MEASURED)
        return
    rows = [["flash_attention_fast", times[0]["ms"]], *([b["peer"], b["peer_ms"]] for b in times)]
    show.table(rows, ["64 heads, N = 8,192, D = 64, bf16", "ms"], caption=f"{found['gpu']}, {found['date']}")
