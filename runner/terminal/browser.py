"""Open a page in a browser, where there is one."""

from __future__ import annotations

import os
import threading
import webbrowser
from pathlib import Path

from runner.terminal.streams import say

WAIT_S = 5.0
"""How long a browser may take to start; it goes on if it takes longer."""


def show(path: Path) -> None:
    """Open a file in a browser; without one, tell where the file is."""
    if not open_link(path.resolve().as_uri()):
        say(f"There is no browser here that could open it: open {path.resolve()}.")


def open_link(address: str) -> bool:
    """Open an address in a browser; return False where there is none.

    A browser that needs the terminal, such as lynx, is used only if BROWSER names it,
    and over SSH so is any. In CI there is none.
    """
    browser = _browser()
    if browser is None:
        return False
    opened: list[bool] = []

    def start() -> None:
        opened.append(browser.open(address))

    # Some wait until the user closes them: they do not hold this command.
    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    return thread.is_alive() or (bool(opened) and opened[0])


def _browser() -> webbrowser.BaseBrowser | None:
    named = bool(os.environ.get("BROWSER"))
    over_ssh = bool(os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY"))
    if os.environ.get("CI") or (over_ssh and not named):
        return None
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return None
    background = isinstance(found, webbrowser.BackgroundBrowser)
    needs_terminal = isinstance(found, webbrowser.GenericBrowser) and not background
    return None if needs_terminal and not named else found
