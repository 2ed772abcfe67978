"""`rai run --on URL`: a run that a server carries out."""

from __future__ import annotations

import math
import signal
import sys
from typing import TYPE_CHECKING

from runner.cli import attach, copies, running

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from runner import session
    from runner.cli.ci import CiSession
    from runner.core.cancel import Cancel
    from runner.core.events import Event
    from runner.remote.entries import ProfileEntry
    from runner.remote.problems import UnreachableError
    from runner.session.prepare import Prepared
    from runner.session.run import StartedRun
    from runner.terminal.console import Console

HERE = "`--on here` runs it on this machine"


def server(on: str | None, options: session.Options) -> ProfileEntry | None:
    """Return the server that a run goes to; None if it stays on this machine.

    Raises:
        RaiError: nobody is logged in there, or it is no address.
    """
    from runner.remote import profile
    from runner.session.prepare import settings

    return profile.chosen(on, settings(options)[0])


def refuse(entry: ProfileEntry, given: Mapping[str, object]) -> None:
    """Refuse the options that have no meaning for a run on a server."""
    from runner.core import Problem
    from runner.core.errors import UsageError

    why = {
        "--watch": "runs wait for their turn on a server",
        "--wait-for": "a server's queue has its own order",
        "--strict-limits": "whoever runs the server decides what it must enforce",
    }
    problems = [
        Problem(f"{option} is not for runs on {entry.url}: {reason}", hint=HERE)
        for option, reason in why.items()
        if given.get(option)
    ]
    if problems:
        raise UsageError(*problems)


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
        from runner.remote.api import ServerClient
        from runner.remote.retrying import Patience

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
            return self._shown(self._submitted(client, me.team, cancel), warnings)

    def _submitted(
        self, client: object, team: str, cancel: Cancel
    ) -> Generator[Event, None, StartedRun]:
        from runner.session import remote

        return remote.submit(self._prepared, client, team, cancel, self._engine)  # type: ignore[arg-type]

    def _shown(
        self, steps: Generator[Event, None, StartedRun], warnings: bool
    ) -> StartedRun:
        from runner.core.events import Warned

        while True:
            try:
                event = next(steps)
            except StopIteration as end:
                self._console.close()
                started: StartedRun = end.value
                return started
            if warnings or not isinstance(event, Warned):
                self._console.show(event)
            if self._trouble != self._told:
                self._told = self._trouble
                text = f"The connection is lost ({self._told}); trying again."
                self._console.line(text, "yellow")

    def _away(self, error: UnreachableError) -> None:
        # In the thread that sends; the other one prints.
        self._trouble = str(error)


def watch(
    started: StartedRun, console: Console, reported: CiSession, *, asks: bool
) -> None:
    """Show a run on a server to its end, however often the connection breaks.

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
