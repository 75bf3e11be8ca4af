"""Take the README's screenshots in a real JupyterLab:  python tests/browser/screenshots.py

docs/images/check_failed.png and check_passed.png: the same exercise with a line forgotten, and done right.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from learner import ROOT, Notebook, find_chromium, jupyterlab, launch
from playwright.sync_api import Page, expect, sync_playwright

IMAGES = ROOT / "docs" / "images"
STUB = "# Exercise online_softmax.online_stats"
CHECK = "online_stats = check(online_stats)"
ANSWER = """# Exercise online_softmax.online_stats
def online_stats(x: torch.Tensor, block: int) -> Stats:
    m = torch.full(x.shape[:-1], -math.inf, device=x.device)
    l = torch.zeros_like(m)
    for start in range(0, x.shape[-1], block):
        s = x[..., start:start + block].float()
        m_new = torch.maximum(m, s.amax(dim=-1))
        shift = m_new.masked_fill(m_new == -math.inf, 0.0)
        l = {rescaled} + torch.exp(s - shift.unsqueeze(-1)).sum(dim=-1)
        m = m_new
    return m, l"""
PICTURES = {"check_failed": "l", "check_passed": "l * torch.exp(m - shift)"}


def take(notebook: Notebook, name: str, rescaled: str) -> None:
    """Write the answer, check it, and keep a picture from the exercise's first line to the report's last."""
    notebook.write(STUB, ANSWER.format(rescaled=rescaled))
    notebook.run(STUB)
    notebook.run(CHECK)
    notebook.page.locator(".jp-Notebook").evaluate("notebook => notebook.ownerDocument.activeElement.blur()")
    first, last = notebook.cell(STUB), notebook.cell(CHECK)
    first.evaluate("cell => cell.scrollIntoView({block: 'start'})")
    top, bottom = first.bounding_box(), last.bounding_box()
    assert top is not None
    assert bottom is not None
    height = bottom["y"] + bottom["height"] - top["y"] + 6
    clip = {"x": top["x"], "y": top["y"], "width": top["width"], "height": height}
    IMAGES.mkdir(parents=True, exist_ok=True)
    notebook.page.screenshot(path=IMAGES / f"{name}.png", clip=clip)  # type: ignore[arg-type]
    print(f"wrote {(IMAGES / name).relative_to(ROOT)}.png")


def open_lesson(page: Page, notebook: Notebook) -> None:
    page.keyboard.press("Control+b")
    expect(page.locator("#filebrowser")).to_be_hidden()  # it takes no room, and nothing moves any more
    for cell in ("# Setup.", "figures.opening()", "import triton.language as tl"):
        notebook.run(cell)


def main() -> int:
    if find_chromium() is None:
        print("Chromium is not installed (on Debian: apt install chromium).", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder, jupyterlab(Path(folder)) as server, sync_playwright() as playwright:
        browser = launch(playwright)
        page = browser.new_page(viewport={"width": 1000, "height": 1100}, device_scale_factor=1.5)
        notebook = Notebook(page, server, "03_online_softmax.ipynb")
        open_lesson(page, notebook)
        for name, rescaled in PICTURES.items():
            take(notebook, name, rescaled)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
