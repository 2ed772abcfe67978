"""What the tests of pages do in a browser."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from tests.kit import needs

if find_spec("playwright"):
    from playwright.sync_api import Browser, Request, sync_playwright

Scheme = Literal["light", "dark"]
AXE = needs.ROOT / "tests/report/pages/node_modules/axe-core/axe.min.js"
PATIENCE_S = 60.0
"""A loaded machine is slow; nothing is waited for longer than it takes."""

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
"""As root there is no sandbox, and in containers /dev/shm is small."""


def executable() -> str | None:
    """Return the browser: what RAI_TEST_BROWSER names, or the system's Chromium."""
    named = os.environ.get("RAI_TEST_BROWSER")
    found = map(shutil.which, [named] if named else NAMES)
    return next(filter(None, found), None)


def absent() -> str | None:
    """Return why no page can be opened here."""
    if find_spec("playwright") is None:
        return "the extra `dev` is not installed: no Playwright"
    if executable() is None and (named := os.environ.get("RAI_TEST_BROWSER")):
        return f"RAI_TEST_BROWSER names no program: {named}"
    if executable() is None:
        return "apt install chromium"
    if not AXE.is_file():
        return "make axe"
    return None


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable(), args=FLAGS, chromium_sandbox=False
        )
        yield browser
        browser.close()


class Visit:
    """A page, and what it said and asked for since it was opened."""

    def __init__(self, browser: Browser, **settings: Any) -> None:
        self.context = browser.new_context(offline=True, **settings)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.context.on("request", lambda request: self._requested(request.url))
        self.context.on("requestfailed", self._stopped)
        self.said: list[str] = []
        self.asked_for: list[str] = []
        self.address = ""

    def open(
        self,
        file: Path,
        width: int = 1280,
        height: int = 800,
        scheme: Scheme = "light",
    ) -> None:
        """Open a file in a window of this size."""
        self.address = file.as_uri()
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(
            media="screen", color_scheme=scheme, reduced_motion="reduce"
        )
        self.page.goto(self.address)

    def has(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        return self.page.evaluate(expression)

    def until(self, expression: str) -> None:
        """Wait until an expression holds; Playwright's own way needs eval()."""
        end = time.monotonic() + PATIENCE_S
        while not self.has(expression):
            assert time.monotonic() < end, f"{expression} does not become true"
            self.page.wait_for_timeout(20)

    def findings(self) -> list[str]:
        """Return what axe-core finds wrong, as lines to read.

        The context has to be one that passes over the page's policy.
        """
        if not self.has("'axe' in window"):
            self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{rule['impact']}: {rule['id']}: {node['target']}: {node['html'][:200]}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def refused(self, *rules: str) -> None:
        """Wait until the page's policy refused something by each of these rules.

        What it refused is no error then.
        """
        end = time.monotonic() + PATIENCE_S
        while not all(map(self._blocked, rules)) or self.asked_for:
            assert time.monotonic() < end, (self.said, self.asked_for)
            self.page.wait_for_timeout(20)
        self.said = [line for line in self.said if "has been blocked" not in line]

    def _blocked(self, rule: str) -> bool:
        return any(rule in line for line in self.said if "has been blocked" in line)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.said.append(text)

    def _stopped(self, request: Request) -> None:
        """Forget a request that never left: the page's policy was in its way."""
        if request.failure == "csp":
            self.asked_for.remove(request.url)

    def _requested(self, url: str) -> None:
        if url != self.address and not url.startswith("data:"):
            self.asked_for.append(url)
