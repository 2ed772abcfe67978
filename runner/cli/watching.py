"""`rai run --watch`: run a project again each time that a file of it is saved."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import NoReturn

import typer

from runner import pack
from runner.cli import attach, common, copies, remotely, running
from runner.client.profile import ProfileEntry
from runner.core import Problem, Reason, RunRecord
from runner.core import events as ev
from runner.core.errors import Cancel, RaiError, UsageError
from runner.execution import prepare, session, watching
from runner.execution.prepare import settings
from runner.execution.session import StartedRun
from runner.report import ending
from runner.terminal import messages
from runner.terminal.console import Console
from runner.terminal.streams import problems

LOOK_S = 0.1
SAVED = "a file was saved"
SAME = (ev.EngineChosen, ev.Packing, ev.Packed, ev.ImageReady, ev.Starting, ev.Warned)
"""Events that say in each run what they said in the run before."""

FIXABLE = (Reason.USAGE, Reason.BAD_SPEC, Reason.NOT_ALLOWED)
"""What is wrong may be mended by the next save."""


def watch(
    path: Path,
    options: prepare.Options,
    output: Path | None,
    to: ProfileEntry | None,
    *,
    force: bool,
    quiet: bool,
    one_run: str = "",
) -> NoReturn:
    """Run the project, and run it again after each save, until Ctrl-C.

    It runs here, or on a server. ``force`` lets the first build folder replace an
    earlier one. ``one_run`` is an option that is of use for one run only.

    Raises:
        UsageError: there is no build file, or the project's folder was removed; or an
            option is of no use here.
        RaiError: the first run cannot start, and no save could mend it.
    """
    if one_run:
        text = f"{one_run} is for one run, and --watch makes many; leave one out"
        raise UsageError(text)
    found, _ = settings(options)
    saves = watching.watcher(path, found, output)
    running.refuse_output(output, saves.folder, force=force)
    console = _Console(quiet, unpacks=output is not None)
    for text in session.tidy(found):
        console.line(text, "yellow")
    stop = Cancel()
    with (
        saves,
        common.cancel_on_signals(stop, console),
        remotely.RunSender(to, console, options.engine) if to else nullcontext() as on,
    ):
        loop = _Loop(path, options, console, saves, stop, on)
        try:
            while loop.run_once(output, force=force) and loop.next_save():
                force = True  # the folder is from the run before
        finally:
            loop.close()
    raise typer.Exit(Reason.CANCELLED.exit_code)


class _Console(Console):
    """Shows once what is the same in each run."""

    def __init__(self, quiet: bool, *, unpacks: bool) -> None:
        super().__init__(quiet, unpacks=unpacks)
        self._same: set[str] = set()

    def show(self, event: ev.Event, at: float | None = None) -> None:
        """Show an event, unless it says what one of the run before said."""
        if isinstance(event, SAME):
            packed = isinstance(event, ev.Packed)
            text = "packed" if packed else str(messages.lines(event))
            if text in self._same:
                return
            self._same.add(text)
        super().show(event, at)


class _Loop:
    """Runs one after another."""

    def __init__(
        self,
        path: Path,
        options: prepare.Options,
        console: Console,
        saves: watching.Watcher,
        stop: Cancel,
        server: remotely.RunSender | None,
    ) -> None:
        self._path, self._options = path, options
        self._console, self._saves, self._stop = console, saves, stop
        self._server, self._copies = server, ExitStack()
        self._cache = pack.PackCache()
        self._series = ending.Series()
        self._started_any = False
        self._warned: list[Problem] = []
        self._ending: list[threading.Thread] = []

    def run_once(self, output: Path | None, *, force: bool) -> bool:
        """Make a run, or report why it cannot start; return whether to go on."""
        cancel = Cancel(self._stop)
        self._saves.call(lambda: cancel.request(SAVED))
        try:
            run = self._start(cancel)
        except RaiError as error:
            if error.reason is not Reason.CANCELLED:
                self._refused(error)
            return not self._stop.requested
        self._started_any = True
        if self._run(run, cancel):
            self._compare(run.record)
            self._bring_back(run, output, force=force)
        return not self._stop.requested

    def next_save(self) -> bool:
        """Wait for a file to be saved; return False if it shall end instead."""
        folder = self._saves.folder
        if not self._saves.wait(LOOK_S):  # a save that ended the run settles
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
        self._copies.close()

    def _start(self, cancel: Cancel) -> StartedRun:
        prepared = prepare.prepare(self._path, self._options)
        if not self._console.quiet:
            problems(one for one in prepared.warnings if one not in self._warned)
        self._warned = list(prepared.warnings)
        if self._server is not None:
            return self._server.start(prepared, cancel, self._cache)
        return session.start(prepared, self._cache)

    def _refused(self, error: RaiError) -> None:
        if not self._started_any and error.reason not in FIXABLE:
            raise error
        problems(error.problems)
        self._console.line(f"Not started. {error.reason.advice}".rstrip(), "red")

    def _run(self, run: StartedRun, cancel: Cancel) -> bool:
        """Show the run; return whether it came to its end.

        One that a save ends is left to a thread when its commands have ended: the next
        one begins while its container is removed. But its GPUs are not free until then.
        """
        if not isinstance(run, session.Run):
            return self._follow(run, cancel)
        events = run.events(cancel)
        try:
            for event in events:
                self._console.show(event)
                over = isinstance(event, ev.CommandFinished) and cancel.requested
                if over and not self._stop.requested and not run.wants_gpu:
                    self._beside(lambda: deque(events, 0))
                    self._superseded(run)
                    return False
        except BaseException:
            events.close()
            raise
        return not cancel.requested

    def _follow(self, run: StartedRun, cancel: Cancel) -> bool:
        """Show a run on a server; return whether it came to its end.

        The copy of one that a save ends is kept up to date beside the next run.
        """
        copy = self._copies.enter_context(copies.kept(run.paths, self._console))
        watched = attach.WatchedRun(run.paths, self._console, copy)
        if watched.follow((), cancel) == 0:
            return True
        self._beside(lambda: attach.cancel(run.paths, self._console))
        if self._stop.requested:
            watched.follow(())
        else:
            self._superseded(run)
        return False

    def _superseded(self, run: StartedRun) -> None:
        self._console.line(f"Run {run.id} cancelled: {SAVED}.", "yellow")

    def _beside(self, end: Callable[[], object]) -> None:
        """End a run while the next one begins."""
        thread = threading.Thread(target=end, name="rai-ending")
        thread.start()
        self._ending = [t for t in self._ending if t.is_alive()] + [thread]

    def _bring_back(self, run: StartedRun, output: Path | None, *, force: bool) -> None:
        try:
            running.bring_back(run, output, self._console, force=force)
        except UsageError as error:
            problems(error.problems)

    def _compare(self, record: RunRecord) -> None:
        if not any(command.wall_s is not None for command in record.commands):
            return
        for text in self._series.add(record):
            self._console.line(text, "cyan")
