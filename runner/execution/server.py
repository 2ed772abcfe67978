"""A server, which runs its clients' runs; their folders here are copies."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from itertools import islice
from urllib.parse import urlsplit

from runner.client import bounds, profile
from runner.client.api import ServerClient
from runner.client.bounds import MirrorBounds
from runner.client.problems import NoServerError, RefusedError, shown
from runner.client.profile import ProfileEntry
from runner.core import Reason
from runner.core import request as requests
from runner.core.errors import BusyError, RaiError
from runner.core.wire import RemoteRun
from runner.engines.base import in_background
from runner.execution import copies
from runner.execution.copies import Follower
from runner.execution.local import RunPlace
from runner.store import claim, run_files, runs
from runner.store.paths import Home, RunPaths
from runner.system import files, trees

LISTED_WITHIN_S = 5.0
MOST_PAGES = 5
"""Of a list, a hundred runs each."""


class Server(RunPlace):
    """Runs that a server runs."""

    def cancel(self, paths: RunPaths) -> None:
        """Ask the server to end a run.

        Where it is not reached the request stays in the run's folder, and is passed on
        when the copy is next brought up to date.

        Raises:
            RaiError: the server is not reached, or refuses.
        """
        files.touch(paths.cancel)
        try:
            with connect(paths) as client:
                client.cancel(paths.id)
        except RefusedError as error:
            if error.reason is Reason.NOT_ALLOWED:
                paths.cancel.unlink(missing_ok=True)
            # It may not be queued yet: whoever queues it looks at the folder then.
            if not error.missing:
                raise

    def follow(self, paths: RunPaths) -> Follower:
        """Return what keeps the copy of a run up to date, once it is started."""
        return Follower(paths, lambda: connect(paths), _bounds(paths))

    def fetch_build(self, paths: RunPaths) -> None:
        """Fetch the build folder of a run that has ended, where that failed before.

        Raises:
            RaiError: it cannot be fetched now either.
        """
        with connect(paths) as client:
            copies.fetch_build(client, paths, _bounds(paths))

    def fetch_source(self, paths: RunPaths, most_bytes: int) -> None:
        """Fetch the packed project of a run that was sent from another machine.

        Raises:
            RaiError: it cannot be fetched, or is larger.
        """
        if not paths.source.exists():
            with connect(paths) as client:
                client.download(paths.id, paths.source.name, paths.source, most_bytes)


def listing(
    entry: ProfileEntry,
    wanted: Callable[[RemoteRun], bool],
    limit: int,
    *,
    everyone: bool,
) -> Callable[[], list[RemoteRun]]:
    """Ask for the runs of a server beside what else a command does.

    They are the team's, or those of ``everyone``, newest first, as many as ``wanted``
    says yes to; of very many older ones are not looked at. What is returned waits for
    them, and raises RaiError where the server refuses, is not reached, or does not
    answer in time.
    """
    some = filter(wanted, _pages(entry, everyone=everyone))
    asked = in_background(lambda: list(islice(some, limit)))

    def listed() -> list[RemoteRun]:
        try:
            return asked.result(LISTED_WITHIN_S)
        except RaiError:
            raise
        except TimeoutError as error:
            raise BusyError(
                f"{entry.url} does not answer in time", advice=""
            ) from error
        except Exception as error:
            raise RaiError(f"{entry.url} is not understood: {error!r}") from error

    return listed


def _pages(entry: ProfileEntry, *, everyone: bool) -> Iterator[RemoteRun]:
    after = ""
    with ServerClient(entry) as client:
        for _ in range(MOST_PAGES):
            page = client.runs(after, everyone=everyone)
            for run in page.runs:
                if not re.fullmatch(runs.ID, run.id):
                    text = f"{entry.url} lists a run without a run's id"
                    raise NoServerError(text)
                yield run
            if not (after := page.after):
                return


def copied(home: Home, run: str, entry: ProfileEntry | None = None) -> RunPaths | None:
    """Return the folder of a run of the user's server, made as one sent from here.

    What the run says comes into it as of any other run there: by ``follow``. ``entry``
    is another server. None where there is no server, or it knows no such run.

    Raises:
        RaiError: the server is not reached, or sends what is no run.
    """
    if entry is None and (entry := profile.login()) is None:
        return None
    found = None
    with ServerClient(entry) as client:
        try:
            found = client.run(run)
            sent = client.parcel(run)
        except RefusedError as error:
            if not error.missing:
                raise
            if found is None:
                return None
            raise RaiError(f"{entry.url} keeps no files of run {run}") from error
    try:
        parcel = requests.from_json(sent)
    except ValueError as error:
        text = f"{entry.url} sends what is no run: {shown(str(error))}"
        raise NoServerError(text) from error
    if found.id != run or len(sent) > requests.MOST_PARCEL_BYTES:
        raise NoServerError(f"{entry.url} sends another run than {run}")
    made = RunPaths(home.runs / f".{run}.{secrets.token_hex(4)}")
    made.root.mkdir(mode=0o700, parents=True)
    try:
        files.write(made.parcel, sent)
        queued_at = min(max(found.queued_at, 0.0), time.time())
        os.utime(made.parcel, (queued_at, queued_at))
        files.write(made.spec, parcel.spec_text.encode())
        run_files.write_seen(made, found)
        on, team = name_of(entry.url), shown(found.team)
        claim.hand_over(made, claim.SERVER, entry.url, on, team, run)
        made.root.rename(home.run(run).root)
    except OSError:
        if not home.run(run).root.is_dir():
            raise  # else another process was quicker
    finally:
        if made.root.exists():
            trees.remove(made.root)
    return home.run(run)


def _bounds(paths: RunPaths) -> MirrorBounds:
    return bounds.of_parcel(run_files.parcel_of(paths))


def connect(paths: RunPaths) -> ServerClient:
    """Return a client of the server that runs a run.

    Raises:
        RaiError: nobody is logged in there.
    """
    holder = claim.holder(paths)
    url = holder.url if holder else ""
    if not url or (entry := profile.chosen(url, profile.settings())) is None:
        raise RaiError(f"{paths.holder} names no server")
    return ServerClient(entry)


def name_of(url: str) -> str:
    """Return a server's name for people: its host, or the path of its socket."""
    parts = urlsplit(url)
    return parts.netloc or parts.path
