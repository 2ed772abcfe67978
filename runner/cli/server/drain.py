"""`rai server drain`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core.errors import UsageError
from runner.terminal.streams import say

USUAL = "the staff stopped the queue"
MOST = 200


def drain(
    reason: Annotated[
        str | None,
        typer.Argument(
            metavar="[REASON]", help="What people are told.", show_default=False
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Start runs again.")] = False,
    state: opening.State = None,
) -> None:
    """Start no more runs. Those that run go on, and others may be queued."""
    from runner.wire.remote_runs import QueueState

    why = " ".join((reason or USUAL).split())
    if off and reason is not None:
        raise UsageError("--off takes no reason")
    if len(why) > MOST or not why:
        raise UsageError(f"the reason is to have 1 to {MOST} characters")
    with opening.opened(state) as (_, store):
        store.drain("" if off else why)
        opening.note(store, "drain off" if off else "drain", "" if off else why)
        left = store.unfinished()
    waiting = sum(one.state is QueueState.WAITING for one in left)
    if off:
        say(f"Runs start again; {waiting} waiting")
    else:
        say(f"No run starts; {len(left) - waiting} still running, {waiting} waiting")
