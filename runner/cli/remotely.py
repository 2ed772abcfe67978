"""`rai run --on PLACE`: a run on a server or on Slurm."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Self, Union

from runner.cli import attach, common, copies, running
from runner.cli.ci import CiSession
from runner.client.problems import UnreachableError
from runner.core import Problem
from runner.core.addresses import SLURM, SlurmTarget, slurm_target
from runner.core.errors import Cancel, UsageError
from runner.core.events import Event, Warned
from runner.engines.base import WithResult
from runner.execution import prepare
from runner.execution.prepare import Prepared, settings
from runner.execution.session import StartedRun
from runner.pack import PackCache
from runner.terminal.console import Console

if TYPE_CHECKING:
    from runner.client.profile import ProfileEntry

HERE = "`--on here` runs it on this machine"
STARTS_S = 20.0
"""How long to ask again where a server does not answer: it may be starting."""


Destination = Union["ProfileEntry", "SlurmTarget"]
"""A server, with the user's login there, or a partition of Slurm's."""


def destination(on: str | None, options: prepare.Options) -> Destination | None:
    """Return where a run goes to; None if it stays on this machine.

    Raises:
        RaiError: nobody is logged in at the server, or it is no address.
    """
    found = settings(options)[0]
    named = on or found.server or ""
    if cluster := slurm_target(named):
        return cluster
    if named.startswith(f"{SLURM}:"):
        hint = "write slurm:PARTITION; `sinfo` lists the partitions"
        raise UsageError(Problem(f"{named} names no partition of Slurm", hint=hint))
    from runner.client import profile

    return profile.chosen(on, found)


def refuse(to: Destination, given: Mapping[str, object]) -> None:
    """Refuse the options that have no meaning for a run that goes elsewhere."""
    if isinstance(to, SlurmTarget):
        name = "Slurm"
        why = {
            "--watch": "each run would wait for its turn",
            "--wait-for": "a run would wait on the node that others need",
        }
    else:
        name = to.url
        why = {"--wait-for": "a server's queue has its own order"}
    problems = [
        Problem(f"{option} is not for runs on {name}: {reason}", hint=HERE)
        for option, reason in why.items()
        if given.get(option)
    ]
    if problems:
        raise UsageError(*problems)


def start(
    to: Destination,
    prepared: Prepared,
    console: Console,
    engine: str | None,
    *,
    warnings: bool,
) -> StartedRun:
    """Hand a run over; ``engine`` is the wish for one.

    ``warnings`` says whether those of packing are shown: a run that is watched tells
    them again.

    Raises:
        RaiError: the run is refused, or it was cancelled before.
    """
    cancel = Cancel()
    with common.cancel_on_signals(cancel, console):
        if isinstance(to, SlurmTarget):
            from runner.execution import handover

            named = to.partition
            where = f"partition {named}" if named else "the default partition"
            console.line(f"Running on Slurm, in {where}.", "cyan")
            steps = handover.submit_to_slurm(prepared, to, cancel)
            return _shown(steps, console, warnings=warnings)
        with RunSender(to, console, engine) as server:
            return server.start(prepared, cancel, warnings=warnings)


class RunSender:
    """Queues runs on a server, one after another, by the same connection."""

    def __init__(
        self, entry: ProfileEntry, console: Console, engine: str | None
    ) -> None:
        from runner.client.api import ServerClient

        self._client, self._console = ServerClient(entry), console
        self._engine = "" if engine in (None, "auto") else str(engine)
        self._team = ""

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.__exit__()

    def start(
        self,
        prepared: Prepared,
        cancel: Cancel,
        cache: PackCache | None = None,
        *,
        warnings: bool = False,
    ) -> StartedRun:
        """Send the project and queue the run, as ``handover.submit_to_server`` does.

        Raises:
            RaiError: the server refuses the run, or it was cancelled before.
        """
        from runner.execution import handover
        from runner.execution.server import name_of

        client = self._client
        if not self._team:
            again = f"trying again for {STARTS_S:g} s"
            away = self._patience(STARTS_S, cancel, "The server does not answer", again)
            me = handover.reach(client, cancel, away.tell)
            on = name_of(client.entry.url)
            text = f"Running on {on} as {me.person} of {me.team}."
            self._console.line(text, "cyan")
            self._team = me.team
        again = "trying again"
        away = self._patience(math.inf, cancel, "The connection is lost", again)
        steps = handover.submit_to_server(
            prepared, client, self._team, cancel, self._engine, cache
        )
        return _shown(steps, self._console, warnings=warnings, between=away.tell)

    def _patience(self, seconds: float, cancel: Cancel, what: str, then: str) -> _Away:
        """Let the client ask again for so long; return what prints that it does."""
        from runner.client.api import Patience

        away = _Away(self._console, cancel, what, then)
        self._client.patience = Patience(seconds, away.note)
        return away


class _Away:
    """Prints once that the server is away."""

    def __init__(self, console: Console, cancel: Cancel, what: str, then: str) -> None:
        self._console, self._cancel = console, cancel
        self._what, self._then = what, then
        self._why: UnreachableError | None = None
        self._told = False

    def note(self, error: UnreachableError) -> None:
        """Note why; in the thread that asks, which ends where nobody waits for it."""
        if self._cancel.requested:
            raise error
        self._why = error

    def tell(self) -> None:
        """Print it."""
        if self._why is not None and not self._told:
            self._told = True
            self._console.line(f"{self._what} ({self._why}); {self._then}.", "yellow")


def _shown(
    steps: Generator[Event, None, StartedRun],
    console: Console,
    *,
    warnings: bool,
    between: Callable[[], None] = lambda: None,
) -> StartedRun:
    """Show events until a run is handed over; call ``between`` after each."""
    starting = WithResult(steps)
    for event in starting:
        if warnings or not isinstance(event, Warned):
            console.show(event)
        between()
    console.close()
    return starting.result


def watch(
    started: StartedRun, console: Console, reported: CiSession, *, asks: bool
) -> None:
    """Show a run elsewhere to its end, however often the connection breaks.

    Ctrl-C asks whether to leave it or to cancel it; without a terminal, or where
    nothing ``asks``, it cancels it, as SIGTERM does. A terminal that closes leaves it.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    cancelling = False
    try:
        with copies.kept(started.paths, console) as copy:
            watched = attach.WatchedRun(started.paths, console, copy)
            while number := watched.follow(signals):
                asked = asks and number == signal.SIGINT and sys.stdin.isatty()
                if asked:
                    attach.goes_on(started.paths, console)
                elif cancelling:
                    text = (
                        f"Run {started.id} is left. Look again: rai show {started.id}"
                    )
                    console.line(text, "yellow")
                    raise KeyboardInterrupt
                else:
                    cancelling = True
                    console.line("Stopping; press Ctrl-C again to quit now.", "yellow")
                    attach.cancel(started.paths, console)
    finally:
        running.report(started, reported)
