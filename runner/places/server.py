"""A server, which carries runs out for its clients; their folders here are copies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner import files
from runner.core.errors import RaiError
from runner.places.base import RunPlace
from runner.store import claim
from runner.store.paths import RunPaths

if TYPE_CHECKING:
    from runner.remote.api import ServerClient
    from runner.remote.bounds import MirrorBounds
    from runner.remote.following import Follower
    from runner.store.settings import Settings

NAME = "server"


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
