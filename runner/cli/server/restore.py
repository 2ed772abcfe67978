"""`rai server restore`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.server import opening
from runner.terminal.streams import say


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What `rai server backup` wrote.")
    ],
    state: opening.State = None,
) -> None:
    """Make a server of a backup, in a folder that has none, and a store that is empty.

    Runs that had not ended wait again if they had not started; others are lost, unless
    their job host has them.
    """
    from runner.server import keeping, paths

    folder = paths.state(state, os.environ)
    keeping.restore(file, folder, os.environ)
    with opening.opened(folder.root) as (_, store):
        opening.note(store, "restore", str(file.absolute()))
    own = "" if state is None else f" --state {folder.root}"
    say(f"Restored to {folder.root}. Next: rai server serve{own}")
