"""`rai server backup`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.core.errors import ConfigError
from runner.terminal.streams import say


def backup(
    into: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    state: opening.State = None,
) -> None:
    """Copy what a server remembers to a folder, while it serves.

    That is the store, server.yml, the certificate that the server made, milestones of
    the site, and the packed projects of runs that have not ended. To restore it, copy
    it back. Exits with 2 if a folder of milestones cannot be copied; the rest is there.
    """
    from runner.server import upkeep

    with opening.opened(state) as (folder, store):
        milestones = common.settings().milestones
        command, problems = upkeep.backup(folder, store, milestones, into)
        opening.note(store, "backup", str(into.absolute()))
    say(f"{into} holds secrets: keep it as you keep the server's folder")
    if command:
        say(f"The store is not in it yet. Next: {command}")
    if problems:
        raise ConfigError(*problems)
