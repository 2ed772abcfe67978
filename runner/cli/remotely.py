"""`rai run --on PLACE`: a run that a server or Slurm carries out."""

from __future__ import annotations

import math
import signal
import sys
from typing import TYPE_CHECKING, Union

from runner.cli import attach, copies, running

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from runner import session
    from runner.cli.ci import CiSession
    from runner.core.cancel import Cancel
    from runner.core.events import Event
    from runner.remote.entries import ProfileEntry
    from runner.remote.problems import UnreachableError
    from runner.session.prepare import Prepared
    from runner.session.run import StartedRun
    from runner.slurm.target import SlurmTarget
    from runner.terminal.console import Console

HERE = "`--on here` runs it on this machine"


Destination = Union["ProfileEntry", "SlurmTarget"]
"""A server, with the user's login there, or a partition of Slurm's."""


def destination(on: str | None, options: session.Options) -> Destination | None:
    """Return where a run goes to; None if it stays on this machine.

    Raises:
        RaiError: nobody is logged in at the server, or it is no address.
    """
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.session.prepare import settings
    from runner.slurm import target

    found = settings(options)[0]
    named = on or found.server or ""
    if cluster := target.parse(named):
        return cluster
    if named.startswith(f"{target.PLACE}:"):
        hint = "write slurm:PARTITION; `sinfo` lists the partitions"
        raise UsageError(Problem(f"{named} names no partition of Slurm", hint=hint))
    from runner.remote import profile

    return profile.chosen(on, found)


def refuse(to: Destination, given: Mapping[str, object]) -> None:
    """Refuse the options that have no meaning for a run that goes elsewhere."""
    from runner.core import Problem
    from runner.core.errors import UsageError
    from runner.slurm.target import SlurmTarget

    if isinstance(to, SlurmTarget):
        name = "Slurm"
        why = {
            "--watch": "each run would wait for its turn",
            "--wait-for": "a run would wait on the node that others need",
        }
    else:
        name = to.url
        why = {
            "--watch": "runs wait for their turn on a server",
            "--wait-for": "a server's queue has its own order",
        }
    problems = [
        Problem(f"{option} is not for runs on {name}: {reason}", hint=HERE)
        for option, reason in why.items()
        if given.get(option)
    ]
    if problems:
        raise UsageError(*problems)


def sending(
    to: Destination, prepared: Prepared, console: Console, engine: str
) -> ServerRun | ClusterRun:
    """Return what hands a run over; ``engine`` is the wish for one, "" for none."""
    from runner.slurm.target import SlurmTarget

    if isinstance(to, SlurmTarget):
        return ClusterRun(to, prepared, console)
    return ServerRun(to, prepared, console, engine)


class ClusterRun:
    """A run on its way to Slurm; ``start`` submits its job."""

    def __init__(self, to: SlurmTarget, prepared: Prepared, console: Console) -> None:
        self._to, self._prepared, self._console = to, prepared, console

    def start(self, *, warnings: bool) -> StartedRun:
        """Seal the project and submit the job, as ``session.slurm.submit`` does.

        Raises:
            RaiError: Slurm refuses it, or it was cancelled before.
        """
        from runner.cli import interrupt
        from runner.core.cancel import Cancel
        from runner.session import slurm

        cancel = Cancel()
        to = self._to.partition
        where = f"partition {to}" if to else "the default partition"
        self._console.line(f"Running on Slurm, in {where}.", "cyan")
        with interrupt.cancel_on_signals(cancel, self._console):
            steps = slurm.submit(self._prepared, self._to, cancel)
            return _shown(steps, self._console, warnings=warnings)


class ServerRun:
    """A run on its way to a server, and there; ``start`` queues it."""

    def __init__(
        self, entry: ProfileEntry, prepared: Prepared, console: Console, engine: str
    ) -> None:
        self._entry, self._prepared = entry, prepared
        self._console, self._engine = console, engine
        self._trouble = self._told = ""

    def start(self, *, warnings: bool) -> StartedRun:
        """Send the project and queue the run, as ``session.submit`` does.

        ``warnings`` says whether those of packing are shown: a run that is watched
        tells them again.

        Raises:
            RaiError: the server refuses the run, or it was cancelled before.
        """
        from runner.cli import interrupt
        from runner.core.cancel import Cancel
        from runner.places.server import shown
        from runner.remote.api import Patience, ServerClient

        patience = Patience(math.inf, self._away)
        cancel = Cancel()
        # Nobody waits for long to learn that there is no server.
        with ServerClient(self._entry) as client:
            me = client.me()
        name = shown(self._entry.url)
        self._console.line(f"Running on {name} as {me.person} of {me.team}.", "cyan")
        with (
            ServerClient(self._entry, patience) as client,
            interrupt.cancel_on_signals(cancel, self._console),
        ):
            steps = self._submitted(client, me.team, cancel)
            return _shown(steps, self._console, warnings=warnings, between=self._tell)

    def _submitted(
        self, client: object, team: str, cancel: Cancel
    ) -> Generator[Event, None, StartedRun]:
        from runner.session import remote

        return remote.submit(self._prepared, client, team, cancel, self._engine)  # type: ignore[arg-type]

    def _tell(self) -> None:
        if self._trouble != self._told:
            self._told = self._trouble
            text = f"The connection is lost ({self._told}); trying again."
            self._console.line(text, "yellow")

    def _away(self, error: UnreachableError) -> None:
        # In the thread that sends; the other one prints.
        self._trouble = str(error)


def _shown(
    steps: Generator[Event, None, StartedRun],
    console: Console,
    *,
    warnings: bool,
    between: Callable[[], None] = lambda: None,
) -> StartedRun:
    """Show events until a run is handed over; call ``between`` after each."""
    from runner.core.events import Warned

    while True:
        try:
            event = next(steps)
        except StopIteration as end:
            console.close()
            started: StartedRun = end.value
            return started
        if warnings or not isinstance(event, Warned):
            console.show(event)
        between()


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
        with copies.KeptCopy(started.paths, console) as copy:
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
