"""`rai server gpu`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.server.paths import ServerFolder

CLEAR = "clear"


def gpu(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[clear UUID]",
            help="Give runs a GPU again that was taken out.",
        ),
    ] = None,
    state: opening.State = None,
    jobs: opening.Jobs = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List the GPUs, and why a GPU is out: it failed, and no run gets it."""
    from runner.core import record
    from runner.jobhost.client import SocketHost
    from runner.report import Table
    from runner.terminal.tables import blocks

    match words or []:
        case []:
            uuid = ""
        case [act, uuid] if act == CLEAR:
            pass
        case _:
            raise UsageError(f"expected `rai server gpu`, or `{CLEAR}` and a UUID")
    with opening.opened(state) as (folder, store):
        host = SocketHost(socket(folder, jobs))
        facts = host.facts()
        known = {one.uuid: one for one in facts.gpus}
        if facts.in_slurm:
            text = "Slurm gives the GPUs to runs here"
            raise UsageError(Problem(text, hint="`sinfo -o '%P %N %G'` lists them"))
        if uuid:
            if uuid not in known:
                text = f"the job host has no GPU {uuid}"
                raise UsageError(Problem(text, hint="`rai server gpu` lists them"))
            host.clear_gpu(uuid)
            opening.note(store, "gpu clear", uuid)
            say(f"{uuid} ({known[uuid].name}) is given to runs again")
            return
    if as_json:
        common.print_json(record.plain(tuple(known.values())))
    elif not known:
        say("The job host has no GPU")
    else:
        rows = tuple(
            (one.uuid, one.name, one.out or "in use") for one in known.values()
        )
        blocks([Table("", ("uuid", "name", "state"), rows)])


def socket(folder: ServerFolder, given: Path | None) -> Path:
    """Return where the job host of a server listens."""
    import os

    from runner.server import paths, reached

    if given is None and (at := reached.read(folder)):
        return Path(at.jobs)
    return paths.jobs_socket(given, paths.socket(None, folder, os.environ))
