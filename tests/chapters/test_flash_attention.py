"""Chapter 04's reference and baseline against PyTorch's own attention; its bounds and its drawn inputs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from efflab.chapters.flash_attention import cases, checks, figures, questions, widgets
from efflab.checking import Draw
from solutions.flash_attention import hbm_traffic, tiled_attention

SHAPES = [  # Hq, Hkv, Nq, Nk, D
    (1, 1, 1, 1, 16), (2, 2, 17, 17, 16), (4, 2, 50, 50, 48), (6, 2, 33, 33, 80), (8, 1, 64, 64, 32),
    (4, 4, 130, 130, 64)]
UNEQUAL = [(2, 1, 17, 50, 16), (2, 2, 50, 17, 32), (4, 2, 1, 33, 16), (3, 3, 64, 1, 16)]


def drawn(Hq: int, Hkv: int, Nq: int, Nk: int, D: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    inputs = cases.qkv(Draw(Hq + 10 * Nq), B=2, heads=(Hq, Hkv), N=(Nq, Nk), D=D, dtype=torch.float64)
    return inputs["q"], inputs["k"], inputs["v"]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_reference_is_pytorchs_attention_where_conventions_agree(shape: tuple[int, ...], causal: bool) -> None:
    q, k, v = drawn(*shape)
    o, _ = checks.attention_reference(q, k, v, causal)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    torch.testing.assert_close(o, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [None, 0.07])
@pytest.mark.parametrize("shape", UNEQUAL)
def test_the_reference_is_pytorchs_attention_under_an_explicit_bottom_right_mask(
        shape: tuple[int, ...], scale: float | None) -> None:
    q, k, v = drawn(*shape)
    Nq, Nk = q.shape[2], k.shape[2]
    seen = torch.tensor([[j <= i + Nk - Nq for j in range(Nk)] for i in range(Nq)])
    o, lse = checks.attention_reference(q, k, v, causal=True, scale=scale)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True, scale=scale)
    torch.testing.assert_close(o, expected, rtol=1e-12, atol=1e-12)
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], 1).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    torch.testing.assert_close(lse, scores.masked_fill(~seen, -torch.inf).logsumexp(-1), rtol=1e-12, atol=1e-12)


def test_rows_that_see_nothing_give_zero_and_minus_infinity() -> None:
    q, k, v = drawn(1, 1, 5, 2, 16)
    o, lse = checks.attention_reference(q, k, v, causal=True)
    assert torch.equal(o[:, :, :3], torch.zeros(2, 1, 3, 16, dtype=torch.float64))
    assert bool(lse[:, :, :3].isneginf().all())
    assert bool(lse[:, :, 3:].isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_baseline_is_as_good_as_pytorchs_attention(dtype: torch.dtype) -> None:
    """It sets the tolerance: a baseline far better or far worse than PyTorch's would make it meaningless."""
    q, k, v = (t.to(dtype) for t in drawn(2, 2, 64, 64, 64))
    exact, _ = checks.attention_reference(q.double(), k.double(), v.double())
    ours = (checks.attention_baseline(q, k, v)[0].double() - exact).abs().max()
    pytorchs = (F.scaled_dot_product_attention(q, k, v).double() - exact).abs().max()
    assert 0.25 * pytorchs < ours < 4 * pytorchs


@pytest.mark.parametrize("algorithm", ["naive", "fa1", "fa2"])
def test_traffic_is_the_closed_form(algorithm: str) -> None:
    for Nq, Nk, D, block_q, block_k in [(512, 512, 64, 64, 128), (130, 77, 48, 64, 32), (1, 9, 16, 4, 4)]:
        tiles_q, tiles_k = -(-Nq // block_q), -(-Nk // block_k)
        expected = {"naive": 2 * (Nq + Nk) * D + 4 * Nq * Nk,
                    "fa1": 2 * Nk * D + tiles_k * (3 * Nq * D + 4 * Nq),
                    "fa2": 2 * Nq * D + Nq + tiles_q * 2 * Nk * D}[algorithm]
        assert checks.traffic_reference(Nq, Nk, D, block_q, block_k, algorithm) == expected
        assert hbm_traffic(Nq, Nk, D, block_q, block_k, algorithm) == expected


@pytest.mark.parametrize(("Nq", "Nk", "D", "block"), [(1024, 1024, 16, 64), (64, 8192, 4, 64)])
def test_the_memory_bound_lies_between_tiles_and_the_score_matrix(Nq: int, Nk: int, D: int, block: int) -> None:
    """Even one byte for each score is refused, and the solution needs less than half of what is allowed."""
    from efflab.checking.observe import observe

    allowed = cases.memory_limit(Nq, Nk, D, block, block).extra_bytes
    assert allowed is not None
    assert allowed < Nq * Nk * (1 if Nq > block else 4)
    inputs = {**cases.qkv(Draw(0), N=(Nq, Nk), D=D), "block_q": block, "block_k": block}
    assert observe(tiled_attention, inputs).peak_bytes < allowed / 2


def test_far_apart_inputs_cost_no_memory() -> None:
    t = torch.arange(3 * 16, dtype=torch.float16).view(1, 1, 3, 16)
    far = cases.spread_out(t, axis=2)
    assert far.stride() == (48, 48, 1 << 30, 1)
    assert torch.equal(far, t)
    assert 2 * far.stride(2) >= 1 << 31


@pytest.mark.parametrize("algorithm", ["fa1", "fa2"])
def test_the_animated_tiles_move_what_the_formula_says(algorithm: str) -> None:
    N = widgets.TILES * widgets.BLOCK
    expected = checks.traffic_reference(N, N, widgets.HEAD, widgets.BLOCK, widgets.BLOCK, algorithm)
    assert widgets.steps(algorithm)[-1].moved == expected


def test_the_lesson_quotes_its_numbers_rightly() -> None:
    """The opening's arithmetic, the schedule that the learner predicts, and the ratio of the traffic."""
    lesson = (Path(__file__).parents[2] / "notebooks" / "04_flash_attention.md").read_text(encoding="utf-8")
    N, D, heads = 8192, 64, 64
    flops, moved = 4 * heads * N * N * D, 4 * heads * N * N * 2
    assert f"{flops / 1e12:.1f} TFLOP: {flops / 715e12 * 1e3:.1f} ms" in lesson
    assert f"{moved / 1e9:.0f} GB: {moved / 4.28e12 * 1e3:.1f} ms" in lesson
    assert moved / 4.28e12 > 4 * flops / 715e12                 # "more than four fifths"
    assert widgets.end_of(heads=2, processors=8, longest_first=False) == 41
    question, _, _, why = questions.ESTIMATES["longest_first"]
    assert "ends after 41 steps" in question
    assert widgets.end_of(heads=2, processors=8, longest_first=True) == 34
    assert "34 is the best" in why
    assert math.isclose(hbm_traffic(131072, 131072, 128, 128, 128, "naive")
                        / hbm_traffic(131072, 131072, 128, 128, 128, "fa2"), 2 * 128 / 128, rel_tol=0.01)


def test_pictures_and_widgets_say_in_text_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    figures.traffic_by_length(hbm_traffic)
    figures.error_by_dtype([tiled_attention])
    widgets.animate_tiles()
    widgets.causal_work_map()
    widgets.explore_tiles(tiled_attention)
    widgets.print_masks((2, 5), (5, 2))
    said = capsys.readouterr().out
    assert said.count("[Picture]") == 5
    assert "sees nothing" in said


def test_without_measurements_the_lesson_says_how_to_take_them(
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures.results, "load", lambda gpu=None: None)
    for show_it in (figures.bars, figures.speed, figures.closing):
        show_it()
    assert capsys.readouterr().out.count("./run bench flash_attention") == 3
