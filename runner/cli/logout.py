"""`rai logout [URL]`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common, suggestions
from runner.client import login, profile
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal.streams import say


def logout(
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="[URL]",
            autocompletion=suggestions.servers,
            help="The server's address.  [default: the one that runs go to]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Log out at a server: revoke the token, and forget it.

    Where the server cannot be reached the token is forgotten all the same.
    """
    file = profile.path()
    logins = profile.to_change(file)
    url = profile.address(server) if server else ""
    entry = logins.servers.get(url or logins.host)
    if entry is None and not url and len(logins.servers) == 1:
        (entry,) = logins.servers.values()
    if entry is None and not url and logins.servers:
        text = "you are logged in at several servers"
        raise UsageError(Problem(text, hint=f"name one: {', '.join(logins.servers)}"))
    if entry is None:
        profile.forget(url or logins.host, file)
        say(f"You are not logged in{f' at {url}' if url else ''}.")
        return
    if (failed := login.log_out(entry, file)) is not None:
        text = f"the token could not be revoked: {failed.problems[0].message}"
        hint = "it stays good until it ends, or whoever runs the server revokes it"
        common.warn_of(text, hint)
    here = " `rai run` runs on this machine." if logins.host == entry.url else ""
    say(f"Logged out at {entry.url}.{here}")
