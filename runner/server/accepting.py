"""Accept connections within bounds, so that no stranger takes all open files.

What uvicorn bounds begins behind the handshake of TLS, and counts all clients together.
"""

from __future__ import annotations

import errno
import os
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from runner.server import bounds, listening
from runner.server.rates import network
from runner.wire.addresses import is_loopback

FILES_SHARE = 4
"""A connection may have so many files opened for it, all told."""

PAUSE_S = 0.5
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class BoundedListener(socket.socket):
    """A listening socket that closes at once what comes beyond its bounds.

    This machine's proxies and the server's own user are bounded together only. ``open``
    has how many connections each client has, at all listeners that share it.
    """

    def __init__(self, bound: socket.socket, open: Counter[str]) -> None:
        super().__init__(fileno=bound.detach())
        self._open = open
        self._short_at = float("-inf")

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a new connection.

        asyncio asks again at once, as often as the backlog is long, whatever is raised
        but BlockingIOError: a lack of files is raised once, which makes it pause.
        """
        while True:
            if time.monotonic() - self._short_at < PAUSE_S:
                raise BlockingIOError
            try:
                link, address = super().accept()
            except OSError as error:
                if error.errno in _NONE_LEFT:
                    self._short_at = time.monotonic()
                raise
            client = _client(link, address)
            if self._open.total() >= _most() or (
                client and self._open[client] >= bounds.MOST_OF_ONE
            ):
                link.close()
                continue
            self._open[client] += 1
            return _Counted(link, partial(self._left, client)), address

    def _left(self, client: str) -> None:
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]


class _Counted(socket.socket):
    """A connection that tells when it is closed."""

    def __init__(self, link: socket.socket, closed: Callable[[], None]) -> None:
        super().__init__(fileno=link.detach())
        self._closed_once: Callable[[], None] | None = closed

    def close(self) -> None:
        """Close it."""
        super().close()
        if self._closed_once:
            self._closed_once()
            self._closed_once = None


def raise_file_limit() -> None:
    """Let this process open as many files as it may; shells allow 1024 at first."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _most() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return bounds.MOST_CONNECTIONS
    return min(bounds.MOST_CONNECTIONS, soft // FILES_SHARE)


def _client(link: socket.socket, address: object) -> str:
    """Return whose a connection is; "" for one that is not bounded by itself."""
    if link.family == socket.AF_UNIX:
        user = listening.peer(link).uid
        return "" if user in (0, os.geteuid()) else f"user {user}"
    host = str(address[0]) if isinstance(address, tuple) else ""
    return "" if is_loopback(host) else network(host)
