"""`rai server backup`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.terminal.streams import say


def backup(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A new file, such as b.tar.")
    ],
    state: opening.State = None,
) -> None:
    """Copy what a server remembers to a file, while it serves.

    That is the store, server.yml, the server's certificate and the uploads. The folders
    of the runs are the job host's: copy them by other means.
    """
    from runner.report import size
    from runner.server import keeping

    common.check_output(file, "FILE")
    with opening.opened(state) as (folder, store):
        kept = keeping.backup(folder, os.environ, file)
        opening.note(store, "backup", str(file.absolute()))
    say(f"{file}: {size(kept.bytes)}, {kept.uploads} uploads; it holds secrets")
