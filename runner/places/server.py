"""A server, which carries runs out for its clients; their folders here are copies."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from runner import files
from runner.core.caps import BUILD_FILES
from runner.core.errors import RaiError
from runner.store import claim
from runner.store.claim import Standing
from runner.store.paths import RunPaths

if TYPE_CHECKING:
    from runner.remote.api import ServerClient
    from runner.remote.following import Follower

NAME = "server"


class Server:
    """Runs that a server carries out; HTTP is loaded when one is really asked."""

    name = NAME

    def look(self, runs: Iterable[RunPaths]) -> dict[str, Standing]:
        """Return that they are elsewhere; what holds them is the server's business."""
        return {paths.id: claim.standing(paths) for paths in runs}

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
        from runner.remote import bounds
        from runner.remote.following import Follower
        from runner.store import sealed

        most = bounds.of_parcel(sealed.parcel_of(paths), BUILD_FILES)
        return Follower(paths, lambda: connect(paths), most)


def connect(paths: RunPaths) -> ServerClient:
    """Return a client of the server that carries a run out.

    Raises:
        RaiError: nobody is logged in there.
    """
    from runner.remote import profile
    from runner.remote.api import ServerClient
    from runner.store import settings

    holder = claim.holder(paths)
    if holder is None or not holder.url:
        raise RaiError(f"{paths.holder} names no server")
    found, _ = settings.load(os.environ, settings.settings_files(), {})
    entry = profile.chosen(holder.url, found)
    if entry is None:
        raise RaiError(f"{paths.holder} names no server")
    return ServerClient(entry)


def shown(url: str) -> str:
    """Return a server's name for people: its host, or the path of its socket."""
    parts = urlsplit(url)
    return parts.netloc or parts.path
