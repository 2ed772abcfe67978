"""Shared by commands that show runs on servers: keep their copies up to date."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from runner.cli import common
from runner.client.problems import standing
from runner.core.errors import RaiError
from runner.core.wire import QueueState
from runner.execution import places
from runner.execution.local import Following
from runner.execution.places import record_of
from runner.report import phrases
from runner.store import run_files
from runner.store.paths import RunPaths
from runner.terminal.console import Console


class KeptCopy:
    """Keeps the copy of a run on a server up to date, and shows what it waits for.

    For a run of this machine it does nothing; ``is_one`` tells which it is.
    """

    def __init__(
        self, paths: RunPaths, console: Console, followers: Sequence[Following]
    ) -> None:
        self._paths, self._console, self._followers = paths, console, followers
        self._trouble = ""

    @property
    def is_one(self) -> bool:
        """Whether it is a copy that is kept up to date."""
        return bool(self._followers)

    def look(self, *, begun: bool) -> None:
        """Show that the server is lost or back, or until it has ``begun`` its place.

        Raises:
            RaiError: the copy cannot be kept up to date.
        """
        for one in self._followers:
            one.check()
            self._tell(one.trouble)
            if not begun and not one.trouble:
                self._wait()

    def look_back(self) -> None:
        """Warn of what could not be fetched of a run that has ended."""
        if not self.is_one:
            return
        from runner.execution.copies import NOT_FETCHED

        for text in record_of(self._paths).warnings[-1:]:
            if text.startswith(NOT_FETCHED):
                self._console.line(f"Warning: {text}", "yellow")

    def _tell(self, trouble: str) -> None:
        if bool(trouble) != bool(self._trouble):
            print_connection(self._console, trouble)
        self._trouble = trouble

    def _wait(self) -> None:
        found = run_files.read_seen(self._paths)
        if found is None or found.run.state is QueueState.ENDED:
            return
        run = found.run
        text = standing(run, time.time())
        # The estimate changes all the time, and most runs start at once.
        waits = run.state is QueueState.WAITING and (run.ahead or run.why)
        news = f"{run.ahead} {run.why}" if waits else ""
        self._console.waiting(f"{text[:1].upper()}{text[1:]}", news)


@contextmanager
def kept(paths: RunPaths, console: Console) -> Iterator[KeptCopy]:
    """Keep the copy of a run up to date meanwhile."""
    with places.followed([paths]) as followers:
        yield KeptCopy(paths, console, followers)


def print_connection(console: Console, trouble: str) -> None:
    """Print that a server is not reached, or that it is again."""
    if trouble:
        text = f"The connection is lost ({trouble}); trying again. The run goes on."
        console.line(text, "yellow")
    else:
        console.line("The connection is back.", "green")


def fetch_sources(*runs: RunPaths) -> None:
    """Fetch projects that another machine sent, to compare them; warn where that fails.

    Larger ones are compared by their checksums alone.
    """
    from runner.report.evidence import CAPS

    for paths in runs:
        try:
            places.of(paths).fetch_source(paths, CAPS.total_bytes)
        except RaiError as error:
            common.warn_of(f"the files of run {paths.id} are not compared: {error}")


def refresh(runs: Iterable[RunPaths]) -> None:
    """Bring copies up to date, within some seconds; warn of those that are not."""
    asked = {paths.id: paths for paths in runs}
    for name, doubt in places.refresh(asked.values()).items():
        if doubt:
            found = run_files.read_seen(asked[name])
            when = f"as of {phrases.date(found.at)}" if found else "as it was queued"
            common.warn_of(f"run {name} is shown {when}: {doubt}")
