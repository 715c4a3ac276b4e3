"""The distribution's Chromium, driven by Playwright, and a real `agenteval view` before it."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from shutil import which
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = (
    "--no-sandbox",  # it is root, and reads our own pages
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BAD = {"serious", "critical"}


@contextmanager
def chromium() -> Iterator[Browser]:
    program = which("chromium") or which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        yield browser
        browser.close()


@dataclass
class Seen:
    """A page that is looked at, and all that went wrong in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """What axe finds that keeps people from reading it."""
        found: list[Any] = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in BAD
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


@contextmanager
def looking(browser: Browser, **known: Any) -> Iterator[Seen]:
    with browser.new_context(**known) as context:
        page = context.new_page()
        seen = Seen(page)
        page.on("console", lambda said: seen.wrong.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: seen.wrong.append(str(error)))
        page.on("dialog", lambda dialog: (seen.wrong.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: seen.asked.append(request.url))
        yield seen


@contextmanager
def serving(store: str) -> Iterator[str]:
    """`agenteval view` as a user starts it; its address, which has the token."""
    command = [sys.executable, "-m", "agenteval", "view", "--port", "0", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().split()[1]
        finally:
            server.terminate()
