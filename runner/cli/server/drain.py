"""`rai server drain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.server import opening
from runner.client import profile
from runner.core.errors import UsageError
from runner.core.wire import MOST_WHY, QueueState
from runner.terminal.streams import say

USUAL = "the staff stopped the queue"


def drain(
    reason: Annotated[
        str | None,
        typer.Argument(
            metavar="[REASON]", help="What people are told.", show_default=False
        ),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Start runs again.")] = False,
    on: common.On = None,
    state: opening.State = None,
) -> None:
    """Start no more runs. Those that run go on, and others may be queued.

    It works beside the store; by a staff login with --on, or where no store is here.
    """
    why = " ".join((reason or USUAL).split())
    if off and reason is not None:
        raise UsageError("--off takes no reason")
    if len(why) > MOST_WHY or not why:
        raise UsageError(f"the reason is to have 1 to {MOST_WHY} characters")
    why = "" if off else why
    if on is not None or (not opening.has_store(state) and profile.login()):
        running, waiting = _there(on, why)
    else:
        running, waiting = opening.with_extra(_here)(state, why)
    if off:
        say(f"Runs start again; {waiting} waiting")
    else:
        say(f"No run starts; {running} still running, {waiting} waiting")


def _here(state: Path | None, why: str) -> tuple[int, int]:
    """Drain the queue of the store here; return how many runs run and wait."""
    with opening.opened(state) as (_, store):
        store.drain(why)
        opening.note(store, "drain" if why else "drain off", why)
        left = store.unfinished()
    waiting = sum(one.state is QueueState.WAITING for one in left)
    return len(left) - waiting, waiting


def _there(on: str | None, why: str) -> tuple[int, int]:
    """Drain the queue of a server as the person who is logged in there."""
    from runner.client.api import ServerClient

    with ServerClient(common.server(on)) as client:
        view = client.drain(why)
    return len(view.running), len(view.waiting) + view.left_out
