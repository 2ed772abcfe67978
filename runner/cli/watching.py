"""`rai run --watch`: run a project again each time that a file of it is saved."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from runner.cli import common, interrupt, running
from runner.core import Problem, Reason, RunRecord
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError, UsageError

if TYPE_CHECKING:
    from runner import session
    from runner.terminal.console import Console

LOOK_S = 0.1
SAVED = "a file was saved"
SAME = (ev.EngineChosen, ev.Packing, ev.Packed, ev.ImageReady, ev.Starting, ev.Warned)
"""Events that say in each run what they said in the run before."""

FIXABLE = (Reason.USAGE, Reason.BAD_SPEC, Reason.NOT_ALLOWED)
"""What is wrong may be mended by the next save."""


def watch(
    path: Path,
    options: session.Options,
    output: Path | None,
    *,
    force: bool,
    quiet: bool,
    one_run: str = "",
) -> NoReturn:
    """Run the project, and run it again after each save, until Ctrl-C.

    ``force`` lets the first build folder replace an earlier one. ``one_run`` is an
    option that is of use for one run only.

    Raises:
        UsageError: there is no build file, or the project's folder was removed; or an
            option is of no use here.
        RaiError: the first run cannot start, and no save could mend it.
    """
    from runner import session
    from runner.session.prepare import settings
    from runner.terminal.console import Console

    if one_run:
        text = f"{one_run} is for one run, and --watch makes many; leave one out"
        raise UsageError(text)
    found, _ = settings(options)
    saves = session.watcher(path, found, output)
    running.refuse_output(output, saves.folder, force=force)
    console = Console(common.mode(quiet), unpacks=output is not None)
    for text in session.tidy(found):
        console.line(text, "yellow")
    stop = Cancel()
    with (
        saves,
        interrupt.cancel_on_signals(stop, console),
    ):
        loop = _Loop(path, options, console, saves, stop)
        try:
            while loop.run_once(output, force=force) and loop.next_save():
                force = True  # the folder is from the run before
        finally:
            loop.close()
    raise typer.Exit(Reason.CANCELLED.exit_code)


class _Loop:
    """Runs one after another."""

    def __init__(
        self,
        path: Path,
        options: session.Options,
        console: Console,
        saves: session.Watcher,
        stop: Cancel,
    ) -> None:
        from runner import archive, report, session

        self._session = session
        self._path, self._options = path, options
        self._console, self._saves, self._stop = console, saves, stop
        self._cache = archive.PackCache()
        self._series = report.Series()
        self._started_any = False
        self._warned: list[Problem] = []
        self._told: set[str] = set()
        self._ending: list[threading.Thread] = []

    def run_once(self, output: Path | None, *, force: bool) -> bool:
        """Carry out a run, or report why it cannot start; return whether to go on."""
        try:
            run = self._start()
        except RaiError as error:
            self._refused(error)
            return not self._stop.requested
        self._started_any = True
        cancel = Cancel(self._stop)
        self._saves.call(lambda: cancel.request(SAVED))
        if self._carry_out(run, cancel):
            self._compare(run.record)
            self._bring_back(run, output, force=force)
        return not self._stop.requested

    def next_save(self) -> bool:
        """Wait for a file to be saved; return False if it shall end instead."""
        folder = self._saves.folder
        if not self._saves.wait(0):
            text = f"Watching {folder}: save a file to run again, Ctrl-C to end."
            self._console.line(text, "cyan")
        names: list[str] = []
        while not names:
            if self._stop.requested:
                return False
            # What changed while the last change settled may have been told with it.
            names = self._saves.changes() if self._saves.wait(LOOK_S) else []
        if not folder.is_dir():
            raise UsageError(f"{folder} was removed: there is nothing left to watch")
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        self._console.line(f"{names[0]}{more} changed.", "cyan")
        return True

    def close(self) -> None:
        """Wait for the runs that were superseded to have cleaned up."""
        for thread in self._ending:
            thread.join()

    def _start(self) -> session.Run:
        from runner.terminal.console import Mode

        prepared = self._session.prepare(self._path, self._options)
        if self._console.mode is not Mode.QUIET:
            common.warn(one for one in prepared.warnings if one not in self._warned)
        self._warned = list(prepared.warnings)
        return self._session.start(prepared, self._cache)

    def _refused(self, error: RaiError) -> None:
        from runner.terminal.problems import problems

        if not self._started_any and error.reason not in FIXABLE:
            raise error
        problems(error.problems)
        self._console.line(f"Not started. {error.reason.advice}".rstrip(), "red")

    def _carry_out(self, run: session.Run, cancel: Cancel) -> bool:
        """Show the run; return whether it was carried out to its end.

        One that a save ends is left to a thread when its commands have ended: the next
        one begins while its container is removed. But its GPUs are not free until then.
        """
        events = run.events(cancel)
        try:
            for event in events:
                self._show(event)
                over = isinstance(event, ev.CommandFinished) and cancel.requested
                if over and not self._stop.requested and not run.wants_gpu:
                    self._leave(events)
                    self._console.line(f"Run {run.id} cancelled: {SAVED}.", "yellow")
                    return False
        except BaseException:
            events.close()
            raise
        return not cancel.requested

    def _show(self, event: ev.Event) -> None:
        """Show an event, and what is the same in each run once."""
        from runner.terminal import messages

        if isinstance(event, SAME):
            packed = isinstance(event, ev.Packed)
            text = "packed" if packed else str(messages.lines(event))
            if text in self._told:
                return
            self._told.add(text)
        self._console.show(event)

    def _leave(self, events: Generator[ev.Event, None, None]) -> None:
        def finish() -> None:
            for _ in events:
                pass

        thread = threading.Thread(target=finish, name="rai-ending")
        thread.start()
        self._ending = [t for t in self._ending if t.is_alive()] + [thread]

    def _bring_back(
        self, run: session.Run, output: Path | None, *, force: bool
    ) -> None:
        from runner.terminal.problems import problems

        try:
            running.bring_back(run, output, self._console, force=force)
        except UsageError as error:
            problems(error.problems)

    def _compare(self, record: RunRecord) -> None:
        if not any(command.wall_s is not None for command in record.commands):
            return
        for text in self._series.add(record):
            self._console.line(text, "cyan")
