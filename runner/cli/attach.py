"""`rai attach RUN`."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType

import typer

from runner.cli import common, copies
from runner.core.errors import BusyError, Cancel, RaiError
from runner.core.events import Finished
from runner.execution import places
from runner.execution.places import record_of
from runner.store import run_files
from runner.store.paths import RunPaths
from runner.store.runs import Tail
from runner.terminal import messages
from runner.terminal.console import Console

POLL_S = 0.05
QUESTION = "[d]etach and let it run, [c]ancel it, or Enter to go on watching? "


def attach(run: common.UnendedRun = "latest", quiet: common.Quiet = False) -> None:
    """Show a run from its first line to its end.

    The exit status is the run's.

    Ctrl-C asks whether to leave the run or to cancel it; without a terminal it leaves
    the run.
    """
    paths = common.find_run(run, fresh=False)
    common.warn_elsewhere(paths)
    console = Console(quiet)
    with copies.kept(paths, console) as copy:
        shown = WatchedRun(paths, console, copy)
        while shown.follow():
            goes_on(paths, console)
    raise typer.Exit(common.status(record_of(paths)))


class WatchedRun:
    """What was shown of a run so far."""

    def __init__(
        self, paths: RunPaths, console: Console, copy: copies.KeptCopy
    ) -> None:
        self._paths, self._console, self._copy = paths, console, copy
        self._tail = Tail(paths)
        self._events = self._tail.events()
        self._finished, self._interrupted = False, 0
        self._told = 0.0

    def follow(
        self, signals: Sequence[int] = (signal.SIGINT,), cancel: Cancel | None = None
    ) -> int:
        """Show what comes until the run has ended; return 0, or a signal that came.

        It ends too, with -1, once a ``cancel`` is requested.

        A signal is looked at between events, so that none is shown in part only. A
        second one, where an event cannot be shown, raises KeyboardInterrupt.
        """
        self._interrupted = 0
        before = {number: signal.signal(number, self._interrupt) for number in signals}
        for number, handler in before.items():
            if handler is signal.SIG_IGN:
                signal.signal(number, handler)
        try:
            ended = self._show(cancel or Cancel())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if ended:
            self._console.close()
            if not self._finished:
                self._lost()
            self._copy.look_back()
        return 0 if ended else self._interrupted or -1

    def _show(self, cancel: Cancel) -> bool:
        """Show events to the last or an interruption; return whether to the last."""
        while True:
            # Checked before reading, so as not to miss the last events.
            over = not places.active(self._paths)
            self._copy.look(begun=self._tail.begun)
            for at, event in self._events:
                self._console.show(event, at)
                self._finished = self._finished or isinstance(event, Finished)
                if self._interrupted or cancel.requested:
                    return False
            self._events = self._tail.events()
            self._progress()
            # The copy of a run has its build folder only when it has its record.
            if over or (self._finished and not self._copy.is_one):
                return True
            time.sleep(POLL_S)
            if self._interrupted or cancel.requested:
                return False

    def _progress(self) -> None:
        """Show what the running command uses, if that is news."""
        found = run_files.read_latest(self._paths)
        if found and found[0] > self._told:
            self._told, tick = found
            self._console.show(tick, self._told)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = number

    def _lost(self) -> None:
        """Show the end of a run that could not record it."""
        common.home()
        verdict = record_of(self._paths).verdict
        if verdict and self._tail.begun:
            self._console.show(Finished(verdict))
        elif verdict:
            ended = messages.ending(self._paths.id, Finished(verdict), 0.0, whole=False)
            for text, colour in ended:
                self._console.line(text, colour)


def goes_on(paths: RunPaths, console: Console) -> None:
    """Ask what Ctrl-C shall do, and do it; without a terminal leave the run.

    Where the run shall be left the command ends.
    """
    console.close()
    answer = "d"
    if sys.stdin.isatty() and sys.stderr.isatty():
        try:
            print(f"\n{QUESTION}", end="", file=sys.stderr, flush=True)
            answer = sys.stdin.readline().strip().lower() or "go on"
        except KeyboardInterrupt:
            print(file=sys.stderr)  # after the ^C of the terminal
            answer = "d"
    # Another word, such as a command for the shell, is no answer.
    if answer in ("c", "cancel"):
        cancel(paths, console)
    if answer in ("d", "detach"):
        text = f"Run {paths.id} goes on. Watch it again: rai attach {paths.id}"
        console.line(text, "yellow")
        raise typer.Exit(130)


def cancel(paths: RunPaths, console: Console) -> None:
    """Ask for a run to end; say where its server is not reached."""
    try:
        places.of(paths).cancel(paths)
    except RaiError as error:
        when = " yet" if isinstance(error, BusyError) else ""
        console.line(f"Not cancelled{when}: {error}", "yellow")
