"""Chapter 03: references against PyTorch's own, drives, the traffic counter, the numbers that the lesson quotes."""

from __future__ import annotations

import math

import pytest
import torch

from efflab.chapters.online_softmax import drive, figures, measured, questions, references, widgets
from efflab.chapters.online_softmax.traffic import bytes_moved
from efflab.checking import Draw
from solutions import online_softmax as solutions

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_softmax_reference_is_torch_softmax(seed: int) -> None:
    x = Draw(seed).normal(5, 77, scale=9.0).double()
    torch.testing.assert_close(references.softmax_reference(x), torch.softmax(x, -1), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", SEEDS)
def test_stats_reference_is_torch_logsumexp(seed: int) -> None:
    x = Draw(seed).normal(5, 77, scale=9.0).double()
    m, l = references.stats_reference(x)
    torch.testing.assert_close(m + l.log(), torch.logsumexp(x, -1), rtol=1e-13, atol=0)


def test_references_of_an_empty_row() -> None:
    x = torch.full((2, 9), -math.inf, dtype=torch.float64)
    m, l = references.stats_reference(x)
    assert torch.equal(m, torch.full((2,), -math.inf, dtype=torch.float64))
    assert torch.equal(l, torch.zeros(2, dtype=torch.float64))
    assert torch.equal(references.softmax_reference(x), torch.zeros_like(x))


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_statistics_are_those_of_the_whole_row(seed: int) -> None:
    x = Draw(seed).normal(5, 40, scale=4.0).double()
    left, right = references.stats_reference(x[:, :13]), references.stats_reference(x[:, 13:])
    torch.testing.assert_close(references.merge_stats_reference(left, right), references.stats_reference(x))


@pytest.mark.parametrize("seed", SEEDS)
def test_merged_outputs_are_torch_attention_over_all_keys(seed: int) -> None:
    draw = Draw(seed)
    q, k, v = (draw.normal(2, 3, n, 16).double() for n in (4, 13, 13))

    def piece(keys: slice) -> tuple[torch.Tensor, torch.Tensor]:
        o = torch.nn.functional.scaled_dot_product_attention(q, k[:, :, keys], v[:, :, keys], scale=1.0)
        return o, torch.logsumexp(q @ k[:, :, keys].mT, -1)

    o, lse = references.merge_outputs_reference(*piece(slice(5)), *piece(slice(5, None)))
    torch.testing.assert_close((o, lse), piece(slice(None)), rtol=1e-11, atol=1e-12)


def test_a_stream_lets_one_pass_through_and_not_two() -> None:
    x = torch.randn(1, 50)
    m, l = drive.as_stream(solutions.online_stats, x, 8)
    torch.testing.assert_close(m + l.log(), torch.logsumexp(x, -1))

    def reads_twice(x: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor]:
        m = x.amax(-1)
        return m, torch.stack([torch.exp(b - m[:, None]).sum(-1) for b in x.split(block, -1)]).sum(0)

    m, l = drive.as_stream(reads_twice, x, 8)
    assert m.isnan().all(), "a whole row is wider than a block and was never there at once"
    assert l.isnan().all()
    assert x.isfinite().all()


def test_a_stream_allows_a_block_to_be_split_into_views_and_read_twice() -> None:
    def by_split(x: torch.Tensor, block: int) -> torch.Tensor:
        return torch.stack([b.max() + b.min() for b in x.split(block, -1)])

    assert drive.as_stream(by_split, torch.randn(1, 30), 7).isfinite().all()


@pytest.mark.parametrize("order", [[[0, 1], [2, 3], [0, 2]], [[2, 3], [1, 2], [0, 1]]])
def test_trees_merge_every_piece_once(order: list[list[int]]) -> None:
    added = drive.in_tree(lambda a, b: (a[0] + b[0], a[1] + b[1]), torch.arange(4.0), torch.ones(4), order)
    assert (added[0].item(), added[1].item()) == (6.0, 4.0)


def traffic_of(function: object, rows: int = 16, cols: int = 65_536) -> tuple[float, float]:
    x = torch.randn(rows, cols)
    moved = bytes_moved(function, x)  # type: ignore[arg-type]
    return moved.read / x.nbytes, moved.written / x.nbytes


def test_traffic_counts_what_the_lesson_says() -> None:
    assert traffic_of(solutions.softmax_3pass) == pytest.approx((5, 3), rel=1e-3)
    assert traffic_of(lambda x: solutions.online_softmax(x, 256)) == pytest.approx((2, 1), rel=1e-2)
    assert traffic_of(lambda x: solutions.online_stats(x, 256)) == pytest.approx((1, 0), abs=1e-2)
    assert traffic_of(torch.clone) == (1, 1)
    assert questions.ESTIMATES["five_operators"].answer == 8


def test_traffic_of_a_temporary_that_stays_in_cache_is_nothing() -> None:
    x = torch.randn(1024)
    assert bytes_moved(lambda x: (x + 1).sum() * 1.0, x).total == pytest.approx(x.nbytes, abs=16)


def test_estimates_are_right() -> None:
    assert questions.ESTIMATES["largest_exp"].answer == round(math.log(torch.finfo(torch.float16).max), 2)
    assert questions.ESTIMATES["tree"].answer == math.log2(64)
    assert questions.ESTIMATES["register_file"].answer == 100 * 65_536 * 4 / (256 * 1024)


def test_measured_numbers_agree_with_the_prose() -> None:
    """0.26, 0.83 and 1.9 ms; 62% and 71% of a copy; 0.98 of it."""
    moved = 2 * 65_536 * 4_096 * 2

    def ms(name: str) -> float:
        return moved / measured.FIRST[name] / 1e9

    assert [round(ms(n), 2) for n in ("copy", "fused_softmax", "torch.softmax")] == [0.26, 0.26, 0.83]
    assert round(ms("five operators"), 1) == 1.9
    part = {name: rate / measured.FIRST["copy"] for name, rate in measured.FIRST.items()}
    assert round(part["two kernels"], 2) == 0.62
    assert round(part["one kernel, two loads"], 2) == 0.71
    assert round(part["fused_softmax"], 2) == 0.98


def test_kept_measurements_reach_the_bars() -> None:
    rates, source = measured.softmax_rates()
    assert rates["fused_softmax"] >= 0.85 * rates["copy"]
    assert rates["fused_softmax"] >= rates["torch.compile"]
    assert "H200" in source
    curve, _ = measured.softmax_curve()
    assert all(len(rates) == len(curve["sizes"]) for rates in curve["series"].values())


def test_pictures_say_what_they_show(capsys: pytest.CaptureFixture[str]) -> None:
    figures.traffic({"mine": solutions.softmax_3pass}, planned={"least": (1, 1)})
    figures.h200_bars()
    figures.h200_curve()
    figures.overflow()
    figures.scrub(solutions.online_stats)
    figures.shuffle_trees(solutions.merge_stats)
    said = capsys.readouterr().out
    assert said.count("[Picture]") == 6
    assert "mine 5.0 read and 3.0 written" in said
    assert "block 1 of 8" in said


@pytest.mark.parametrize("shift", [-30, 0, 30])
def test_overflow_without_the_maximum(shift: int, capsys: pytest.CaptureFixture[str]) -> None:
    widgets._draw_overflow(shift)
    assert ("NaN" in capsys.readouterr().out) == (shift != 0)


@pytest.mark.parametrize("row", ["random", "rising", "falling", "begins with −inf"])
def test_the_scrubber_draws_every_state(row: str, capsys: pytest.CaptureFixture[str]) -> None:
    for blocks in (1, 2, 8):
        widgets._draw_scrub(solutions.online_stats, blocks, row)
    assert "nan" not in capsys.readouterr().out.lower()


def test_every_tree_has_the_same_root(capsys: pytest.CaptureFixture[str]) -> None:
    for deal in range(5):
        widgets._draw_tree(solutions.merge_stats, deal)
    roots = {line.split("m = ")[1].split(",")[0] for line in capsys.readouterr().out.splitlines() if "tree" in line}
    assert roots == {"4.8728"}


def test_the_kernel_refuses_what_it_cannot_take() -> None:
    with pytest.raises(ValueError, match=r"takes x \(M, N\)"):
        solutions.fused_softmax(torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="N from 1 to 65,536"):
        solutions.fused_softmax(torch.zeros(1, 65_537))
    with pytest.raises(ValueError, match="convert with"):
        solutions.fused_softmax(torch.zeros(2, 3, dtype=torch.float64))
    assert solutions.fused_softmax(torch.zeros(0, 3)).shape == (0, 3)
