"""A server, which carries runs out for its clients; their folders here are copies."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner import files, trees
from runner.core import Reason
from runner.core import request as requests
from runner.core.errors import BusyError, RaiError
from runner.places.base import RunPlace
from runner.store import claim, runs, seen
from runner.store.paths import Home, RunPaths

if TYPE_CHECKING:
    from runner.remote.api import ServerClient
    from runner.remote.bounds import MirrorBounds
    from runner.remote.following import Follower
    from runner.remote.profile import ProfileEntry
    from runner.store.settings import Settings
    from runner.wire.remote_runs import RemoteRun

NAME = "server"
LISTED_WITHIN_S = 5.0
MOST_PAGES = 5
"""Of a list, a hundred runs each."""


class Server(RunPlace):
    """Runs that a server carries out; HTTP is loaded when one is really asked."""

    def cancel(self, paths: RunPaths) -> None:
        """Ask the server to end a run.

        Where it is not reached the request stays in the run's folder, and is passed on
        when the copy is next brought up to date.

        Raises:
            RaiError: the server is not reached, or refuses.
        """
        from runner.remote.problems import RefusedError

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
        from runner.remote.following import Follower

        return Follower(paths, lambda: connect(paths), _bounds(paths))

    def fetch_build(self, paths: RunPaths) -> None:
        """Fetch the build folder of a run that has ended, where that failed before.

        Raises:
            RaiError: it cannot be fetched now either.
        """
        from runner.remote.following import fetch_build

        with connect(paths) as client:
            fetch_build(client, paths, _bounds(paths))

    def fetch_source(self, paths: RunPaths, most_bytes: int) -> None:
        """Fetch the packed project of a run that was sent from another machine.

        Raises:
            RaiError: it cannot be fetched, or is larger.
        """
        if not paths.source.exists():
            with connect(paths) as client:
                client.download(paths.id, paths.source.name, paths.source, most_bytes)


class Listing:
    """The runs of a server, asked for beside what else a command does.

    They are the team's, or those of ``everyone``, newest first, as many as ``wanted``
    says yes to; of very many older ones are not looked at.
    """

    def __init__(
        self,
        entry: ProfileEntry,
        wanted: Callable[[RemoteRun], bool],
        limit: int,
        *,
        everyone: bool,
    ) -> None:
        self._entry, self._wanted, self._limit = entry, wanted, limit
        self._everyone = everyone
        self._found: list[RemoteRun] = []
        self._error: RaiError | None = None
        # A daemon: a server that is silent does not keep this process alive.
        self._thread = threading.Thread(target=self._work, name="rai-list", daemon=True)
        self._thread.start()

    def runs(self) -> list[RemoteRun]:
        """Return the runs.

        Raises:
            RaiError: the server refuses, is not reached, or does not answer in time.
        """
        self._thread.join(LISTED_WITHIN_S)
        if self._thread.is_alive():
            raise BusyError(f"{self._entry.url} does not answer in time", advice="")
        if self._error is not None:
            raise self._error
        return self._found[: self._limit]

    def _work(self) -> None:
        try:
            self._ask()
        except RaiError as error:
            self._error = error
        except Exception as error:
            self._error = RaiError(f"{self._entry.url} is not understood: {error!r}")

    def _ask(self) -> None:
        from runner.remote.api import ServerClient
        from runner.remote.problems import NoServerError

        after = ""
        with ServerClient(self._entry) as client:
            for _ in range(MOST_PAGES):
                page = client.runs(after=after, everyone=self._everyone)
                for run in page.runs:
                    if not re.fullmatch(runs.ID, run.id):
                        text = f"{self._entry.url} lists a run without a run's id"
                        raise NoServerError(text)
                    if self._wanted(run):
                        self._found.append(run)
                after = page.after
                if not after or len(self._found) >= self._limit:
                    return


def login() -> ProfileEntry | None:
    """Return the user's login at the server that runs go to; None if there is none."""
    from runner.remote import profile
    from runner.remote.problems import LoginNeededError

    try:
        return profile.chosen(None, _settings())
    except LoginNeededError:
        return None


def copied(home: Home, run: str) -> RunPaths | None:
    """Return the folder of a run of the user's server, made as one sent from here.

    What the run says comes into it as of any other run there: by ``follow``. None where
    there is no server, or it knows no such run.

    Raises:
        RaiError: the server is not reached, or sends what is no run.
    """
    from runner.remote import problems
    from runner.remote.api import ServerClient
    from runner.remote.problems import NoServerError, RefusedError

    if (entry := login()) is None:
        return None
    with ServerClient(entry) as client:
        try:
            found = client.run(run)
        except RefusedError as error:
            if error.missing:
                return None
            raise
        try:
            sent = client.parcel(run)
        except RefusedError as error:
            if error.missing:
                raise RaiError(f"{entry.url} keeps no files of run {run}") from error
            raise
    try:
        parcel = requests.from_json(sent)
    except ValueError as error:
        text = problems.shown(str(error))
        raise NoServerError(f"{entry.url} sends what is no run: {text}") from error
    if found.id != run or len(sent) > requests.MOST_PARCEL_BYTES:
        raise NoServerError(f"{entry.url} sends another run than {run}")
    made = RunPaths(home.runs / f".{run}.{secrets.token_hex(4)}")
    made.root.mkdir(mode=0o700, parents=True)
    try:
        files.write(made.parcel, sent)
        queued_at = min(max(found.queued_at, 0.0), time.time())
        os.utime(made.parcel, (queued_at, queued_at))
        files.write(made.spec, parcel.spec_text.encode())
        seen.write(made, found)
        team = problems.shown(found.team)
        claim.hand_over(made, NAME, entry.url, shown(entry.url), team, run)
        made.root.rename(home.run(run).root)
    except OSError:
        if not home.run(run).root.is_dir():
            raise  # else another process was quicker
    finally:
        if made.root.exists():
            trees.remove(made.root)
    return home.run(run)


def _bounds(paths: RunPaths) -> MirrorBounds:
    from runner.remote import bounds
    from runner.store import sealed

    return bounds.of_parcel(sealed.parcel_of(paths))


def _settings() -> Settings:
    from runner.store import settings

    return settings.load(os.environ, settings.settings_files(), {})[0]


def connect(paths: RunPaths) -> ServerClient:
    """Return a client of the server that carries a run out.

    Raises:
        RaiError: nobody is logged in there.
    """
    from runner.remote import profile
    from runner.remote.api import ServerClient

    holder = claim.holder(paths)
    if holder is None or not holder.url:
        raise RaiError(f"{paths.holder} names no server")
    entry = profile.chosen(holder.url, _settings())
    if entry is None:
        raise RaiError(f"{paths.holder} names no server")
    return ServerClient(entry)


def shown(url: str) -> str:
    """Return a server's name for people: its host, or the path of its socket."""
    parts = urlsplit(url)
    return parts.netloc or parts.path
