"""`rai server gpu`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.report import Table
from runner.terminal.layout import blocks
from runner.terminal.streams import say

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
    as_json: common.JsonFlag = False,
) -> None:
    """List the GPUs, and why a GPU is out: it failed, and no run gets it."""
    from runner.server import workers

    match words or []:
        case []:
            uuid = ""
        case [act, uuid] if act == CLEAR:
            pass
        case _:
            raise UsageError(f"expected `rai server gpu`, or `{CLEAR}` and a UUID")
    with opening.opened(state) as (folder, store):
        home = folder.home_of_runs()
        if (facts := workers.kept(home)) is None:
            text = "the server has not looked at its GPUs yet"
            raise UsageError(Problem(text, hint="start it: rai server serve"))
        known = {one.uuid: one for one in facts.gpus}
        if facts.in_slurm:
            text = "Slurm gives the GPUs to runs here"
            raise UsageError(Problem(text, hint="`sinfo -o '%P %N %G'` lists them"))
        if uuid:
            if uuid not in known:
                text = f"this server has no GPU {uuid}"
                raise UsageError(Problem(text, hint="`rai server gpu` lists them"))
            workers.GpusOut(home.root).clear(uuid)
            opening.note(store, "gpu clear", uuid)
            say(f"{uuid} ({known[uuid].name}) is given to runs again")
            return
    if as_json:
        common.print_json(tuple(known.values()))
    elif not known:
        say("This server has no GPU")
    else:
        rows = tuple(
            (one.uuid, one.name, one.out or "given to runs") for one in known.values()
        )
        blocks([Table("", ("uuid", "name", "state"), rows)])
