"""`rai attach RUN`."""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

import typer

from runner.cli import common

if TYPE_CHECKING:
    from runner.store.paths import RunPaths
    from runner.terminal.console import Console

POLL_S = 0.05
QUESTION = "[d]etach and let it run, [c]ancel it, or Enter to go on watching? "


def attach(run: common.RunArgument, progress: common.Progress = None) -> None:
    """Show a run from its first line to its end, and exit with its status.

    Ctrl-C asks whether to leave the run or to cancel it; without a terminal it leaves
    the run.
    """
    from runner.places import record_of
    from runner.terminal.console import Console, Mode

    paths = common.find_run(run)
    common.warn_elsewhere(paths)
    console = Console(Mode(common.settings(progress=progress).progress))
    shown = _Shown(paths, console)
    while not shown.follow():
        if not _goes_on(paths, console):
            raise typer.Exit(130)
    done = record_of(paths)
    raise typer.Exit(done.verdict.reason.exit_code if done.verdict else 10)


class _Shown:
    """What was shown of a run so far."""

    def __init__(self, paths: RunPaths, console: Console) -> None:
        from runner.store.tail import Tail

        self._paths, self._console = paths, console
        self._tail = Tail(paths)
        self._events = self._tail.events()
        self._finished = self._interrupted = False
        self._told = 0.0

    def follow(self) -> bool:
        """Show what comes until the run has ended; return False after a Ctrl-C.

        Ctrl-C is looked at between events, so that none is shown in part only. A second
        one, where an event cannot be shown, raises KeyboardInterrupt.
        """
        self._interrupted = False
        before = signal.signal(signal.SIGINT, self._interrupt)
        if before is signal.SIG_IGN:
            signal.signal(signal.SIGINT, before)
        try:
            ended = self._show()
        finally:
            signal.signal(signal.SIGINT, before)
        if ended:
            self._console.close()
            if not self._finished:
                self._lost()
        return ended

    def _show(self) -> bool:
        """Show events to the last one, or to a Ctrl-C; return whether to the last."""
        from runner import places
        from runner.core.events import Finished

        while True:
            # Checked before reading, so as not to miss the last events.
            over = not places.active(self._paths)
            for at, event in self._events:
                self._console.show(event, at)
                self._finished = self._finished or isinstance(event, Finished)
                if self._interrupted:
                    return False
            self._events = self._tail.events()
            self._progress()
            if over or self._finished:
                return True
            time.sleep(POLL_S)
            if self._interrupted:
                return False

    def _progress(self) -> None:
        """Show what the running command uses, if that is news."""
        from runner.store import latest

        found = latest.read(self._paths)
        if found and found[0] > self._told:
            self._told, tick = found
            self._console.show(tick, self._told)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True

    def _lost(self) -> None:
        """Show the end of a run that could not record it."""
        from runner.core.events import Finished
        from runner.places import record_of

        common.home()
        if verdict := record_of(self._paths).verdict:
            self._console.show(Finished(verdict))


def _goes_on(paths: RunPaths, console: Console) -> bool:
    """Ask what Ctrl-C shall do; return whether to go on watching."""
    from runner import places

    console.close()
    answer = "d"
    if sys.stdin.isatty() and sys.stderr.isatty():
        print(f"\n{QUESTION}", end="", file=sys.stderr, flush=True)
        try:
            answer = sys.stdin.readline().strip().lower() or "go on"
        except KeyboardInterrupt:
            answer = "d"
    if answer.startswith("c"):
        places.cancel(paths)
        return True
    if answer.startswith("d"):
        text = f"Run {paths.id} goes on. Watch it again: rai attach {paths.id}"
        console.line(text, "yellow")
        return False
    return True
