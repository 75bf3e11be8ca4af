"""A learner's evening in a real browser: write a wrong answer, then a right one, move a slider, come back later."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from learner import Notebook, Server, find_chromium, jupyterlab, launch
from playwright.sync_api import Page, expect, sync_playwright

REQUIRED = bool(os.environ.get("EFFLAB_REQUIRE_BROWSER"))
pytestmark = pytest.mark.skipif(find_chromium() is None and not REQUIRED,
                                reason="Chromium is not installed (on Debian: apt install chromium)")

STUB = "# Exercise start_here.rms"
WRONG = """
def rms(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean(dim=-1).to(x.dtype)
"""
RIGHT = """
def rms(x: torch.Tensor) -> torch.Tensor:
    return x.float().square().mean(dim=-1).sqrt().to(x.dtype)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with jupyterlab(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    assert find_chromium() is not None, "EFFLAB_REQUIRE_BROWSER is set, and Chromium is not installed"
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


@pytest.fixture(scope="module")
def notebook(page: Page, server: Server) -> Notebook:
    opened = Notebook(page, server, "00_start_here.ipynb")
    opened.run("# Setup.")
    opened.run("import torch")
    return opened


def test_the_setup_cell_says_what_this_machine_can_do(notebook: Notebook) -> None:
    expect(notebook.run("# Setup.")).to_contain_text("sm_" if has_gpu() else "no GPU")


def test_an_untouched_exercise_is_not_attempted(notebook: Notebook) -> None:
    notebook.run(STUB)
    expect(notebook.run("rms = check(rms)")).to_contain_text("not attempted")


def test_a_wrong_answer_fails_under_its_own_name(notebook: Notebook) -> None:
    notebook.write(STUB, STUB + WRONG)
    notebook.run(STUB)
    report = notebook.run("rms = check(rms)")
    expect(report).to_contain_text("failed")
    expect(report).to_contain_text("This is what you get when")


def test_a_right_answer_passes(notebook: Notebook) -> None:
    notebook.write(STUB, STUB + RIGHT)
    notebook.run(STUB)
    report = notebook.run("rms = check(rms)")
    expect(report).to_contain_text("passed")
    expect(report).not_to_contain_text("failed")


def test_a_slider_moves_with_the_arrow_keys(notebook: Notebook) -> None:
    output = notebook.run("figures.explore_rms(rms)")
    expect(output).to_contain_text("N(0, 1²)")
    output.get_by_role("slider").first.focus()
    notebook.page.keyboard.press("ArrowRight")
    expect(output).to_contain_text("N(0, 2²)")
    notebook.page.keyboard.press("ArrowRight")
    expect(output).to_contain_text("N(0, 3²)")
    expect(output).not_to_contain_text("N(0, 2²)")
    output.get_by_role("slider").nth(1).focus()
    notebook.page.keyboard.press("ArrowLeft")
    expect(output).to_contain_text("N(-1, 3²)")


def test_progress_survives_a_restart_of_the_kernel(notebook: Notebook) -> None:
    notebook.restart_kernel()
    notebook.run("# Setup.")
    notebook.run("from efflab.chapters.start_here import figures")
    expect(notebook.run("figures.course_map()")).to_contain_text("1 of 1")


def test_the_learners_text_is_saved_in_the_copy_and_not_in_the_lesson(
        notebook: Notebook, server: Server, root: Path) -> None:
    notebook.page.keyboard.press("Control+s")
    lesson = root / "notebooks" / "00_start_here.ipynb"
    before = lesson.read_bytes()
    copy = server.work / "00_start_here.ipynb"
    expect(notebook.page.locator(".jp-mod-dirty")).to_have_count(0)
    assert ".square().mean(dim=-1).sqrt()" in copy.read_text(encoding="utf-8")
    assert lesson.read_bytes() == before
    assert "mean(dim=-1).sqrt().to" not in before.decode()


@pytest.fixture
def root() -> Path:
    return Path(__file__).resolve().parents[2]


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


ONLINE_STATS = """# Exercise online_softmax.online_stats
def online_stats(x: torch.Tensor, block: int) -> Stats:
    m = torch.full(x.shape[:-1], -math.inf)
    l = torch.zeros_like(m)
    for start in range(0, x.shape[-1], block):
        s = x[..., start:start + block].float()
        m_new = torch.maximum(m, s.amax(dim=-1))
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)
        l = l{rescaling} + torch.exp(s - shift.unsqueeze(-1)).sum(dim=-1)
        m = m_new
    return m, l"""


def test_a_chapter_step_and_its_picture(page: Page, server: Server) -> None:
    """The same evening in a chapter with pictures: the picture is drawn from the learner's own function."""
    chapter = Notebook(page, server, "03_online_softmax.ipynb")
    for cell in ("# Setup.", "figures.opening()", "import triton.language as tl"):
        chapter.run(cell)
    exercise = ONLINE_STATS.splitlines()[0]
    chapter.write(exercise, ONLINE_STATS.format(rescaling=""))
    chapter.run(exercise)
    expect(chapter.run("online_stats = check(online_stats)")).to_contain_text("not rescaled")
    chapter.write(exercise, ONLINE_STATS.format(rescaling=" * torch.exp(m - shift)"))
    chapter.run(exercise)
    expect(chapter.run("online_stats = check(online_stats)")).to_contain_text("passed")
    output = chapter.run("figures.scrub(online_stats)")
    picture = output.locator("img").first
    expect(picture).to_have_attribute("alt", re.compile(r"\w+ \w+"))
    before = picture.get_attribute("src") or ""
    output.get_by_role("slider").first.focus()
    chapter.page.keyboard.press("ArrowRight")
    expect(picture).not_to_have_attribute("src", before)
