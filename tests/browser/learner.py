"""A JupyterLab server on a free port, and a notebook page driven as a learner drives it: by keyboard and mouse."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, Playwright, expect

from efflab.workspace.copies import Workspace, lessons, refresh

ROOT = Path(__file__).resolve().parents[2]
WAIT_MS = 90_000  # for a kernel to start and import torch on a busy machine
CHROMIUM_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                  "--disable-background-networking", "--disable-component-update", "--disable-sync"]
# All cells in the page at once, and no question about news.
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "autoStartDefaultKernel": True},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)


@dataclass(frozen=True)
class Server:
    """url ends in /; work: the folder of the learner's copies that it shows."""

    url: str
    token: str
    work: Path

    def page_of(self, notebook: str) -> str:
        return f"{self.url}lab/tree/{notebook}?token={self.token}&reset"


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[Server]:
    """JupyterLab on copies of all lessons in folder/work; settings, progress and runtime files stay in `folder`."""
    work = folder / "work"
    refresh(Workspace(ROOT, work), lessons(Workspace(ROOT, work)))
    for name, values in SETTINGS.items():
        file = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    places = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTERLAB_SETTINGS_DIR": "settings",
              "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython", "EFFLAB_HOME": "home"}
    environment = os.environ | {name: str(folder / part) for name, part in places.items()}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
               "--ServerApp.port=0", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=work, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        info = _wait_until_up(process, folder)
        yield Server(info["url"], info["token"], work)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], folder: Path) -> dict[str, str]:
    """The server's own description of itself, which it writes when it listens."""
    file = folder / "runtime" / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + WAIT_MS / 1000
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            return json.loads(file.read_text())
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{(folder / 'server.log').read_text()[-3000:]}")


class Notebook:
    """An open notebook. Cells are found by a piece of their source."""

    def __init__(self, page: Page, server: Server, name: str) -> None:
        self.page = page
        page.set_default_timeout(WAIT_MS)
        page.goto(server.page_of(name))
        self.wait_for_idle_kernel()

    def wait_for_idle_kernel(self) -> None:
        """The status bar says so; the notebook's own indicator reads idle even before there is a kernel."""
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=WAIT_MS)

    def cell(self, source: str) -> Locator:
        """The one code cell whose source contains this text."""
        editor = self.page.locator(".cm-content", has_text=source)
        return self.page.locator(".jp-CodeCell").filter(has=editor)

    def run(self, source: str) -> Locator:
        """Run this cell, wait until it is done, and return its output area."""
        cell = self.cell(source)
        prompt = cell.locator(".jp-InputArea-prompt")
        before = prompt.inner_text()
        self._enter(source)
        self.page.keyboard.press("Control+Enter")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=WAIT_MS)
        expect(prompt).not_to_have_text(before, timeout=WAIT_MS)
        return cell.locator(".jp-Cell-outputArea")

    def write(self, source: str, code: str) -> None:
        """Replace all of this cell's text by typing over it."""
        self._enter(source)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(code)

    def _enter(self, source: str) -> None:
        """Put the cursor into this cell."""
        self.cell(source).locator(".cm-content").click()
        expect(self.cell(source).locator(".cm-content")).to_be_focused()

    def restart_kernel(self) -> None:
        self.page.locator('.jp-NotebookPanel-toolbar jp-button[data-command="notebook:restart-kernel"]').click()
        self.page.locator(".jp-Dialog .jp-mod-accept").click()
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)
        self.wait_for_idle_kernel()
