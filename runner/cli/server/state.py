"""Look after a server: `rai server audit`, `backup`, `doctor`, `drain`, `gpu`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import common
from runner.cli.doctor import table
from runner.cli.server import opening
from runner.client import profile
from runner.core import Problem
from runner.core.errors import ConfigError, UsageError
from runner.core.wire import MOST_WHY, QueueState
from runner.report.blocks import Table
from runner.report.phrases import date
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def audit(
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=100_000, help="The last N.")
    ] = 100,
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List what staff did, the latest first."""
    with opening.opened(state) as (_, store):
        found = store.audited(limit)
    if as_json:
        common.print_json(found)
    elif not found:
        say("Nothing yet")
    else:
        rows = tuple((date(one.at), one.who, one.act, one.about) for one in found)
        blocks([Table("", ("when", "who", "act", "about"), rows)])


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


def doctor(
    state: opening.State = None,
    as_json: common.JsonFlag = False,
) -> None:
    """Check a server: its store, what can run, who can reach what, and what ends soon.

    Exits with 1 if something keeps it from serving.
    """
    from runner.server import checkup

    found = checkup.examine(opening.folder(state), os.environ)
    if as_json:
        common.print_json(found)
    else:
        blocks([table(found)])
    if not checkup.well(found):
        raise typer.Exit(1)


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
