"""`rai web`."""

from __future__ import annotations

from urllib.parse import quote

from runner.cli import common
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal import browser
from runner.terminal.streams import say


def web(on: common.On = None) -> None:
    """Open the server's pages: your runs and submissions, and the standings.

    It prints a link, which logs a browser in once, and for ten minutes. On another
    device open the link there.
    """
    from runner.client.api import ServerClient

    entry = common.server(on)
    if entry.url.startswith("unix:"):
        text = f"no browser can open {entry.url}"
        hint = "log in at the address by which others reach the server"
        raise UsageError(Problem(text, hint=hint))
    with ServerClient(entry) as client:
        code = client.another().code
    link = f"{entry.url}/enter?code={quote(code)}"
    say(link, now=True)
    browser.open_link(link)
