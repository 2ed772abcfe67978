"""Connections: accepted within bounds, and closed once their clients owe too much.

What uvicorn bounds begins behind the handshake of TLS, counts all clients together, and
counts the time between two requests anew from every byte.
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import contextlib
import errno
import os
import resource
import signal
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import h11
import uvicorn
from msgspec import Struct
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from runner.core.addresses import is_loopback
from runner.server import bounds, listening
from runner.server.bounds import network

LOOK_S = 0.02
FILES_SHARE = 4
"""A connection may have so many files opened for it, all told."""

TLS_BUFFER = 32 << 10
"""Two records of TLS."""

PAUSE_S = 0.5
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener(Struct, frozen=True):
    """A bound socket, and what it is served with by TLS, if it is."""

    bound: socket.socket
    tls: ssl.SSLContext | None = None


class BoundedListener(socket.socket):
    """A listening socket that closes at once what comes beyond its bounds.

    So no stranger takes all open files. This machine's proxies and the server's own
    user are bounded together only. ``open`` has how many connections each client has,
    at all listeners that share it.
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
            own = self._open[client] if client else 0
            if self._open.total() < _most() and own < bounds.MOST_OF_ONE:
                return _Counted(link, self._open, client), address
            link.close()


class _Counted(socket.socket):
    """A connection that counts until it is closed."""

    def __init__(self, link: socket.socket, open: Counter[str], client: str) -> None:
        super().__init__(fileno=link.detach())
        self._open, self._client = open, client
        open[client] += 1

    def close(self) -> None:
        """Close it."""
        if self.fileno() >= 0:
            self._open -= Counter({self._client: 1})  # which drops those of none
        super().close()


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


class PatientProtocol(H11Protocol):
    """HTTP on a connection that is closed once its client owes something for too long.

    It owes the head of a request while none is answered, what is left of a body whose
    request was answered, and to take an answer. How slowly a body may come is decided
    where it is read: see ``messages``.
    """

    _owed: float | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        # So that a pause of writing means that something waits for the client. With 0
        # a transport of TLS pauses for nothing. Part of a TLS handshake may wait, so
        # that this pauses at once, which needs what connection_made made.
        transport.set_write_buffer_limits(high=1, low=0)
        self._look()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._look()

    def resume_writing(self) -> None:
        """Go on: the client has taken all."""
        super().resume_writing()
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._unset_keepalive_if_required()  # its handle would keep a closed connection
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._look()

    def _look(self) -> None:
        """Set a deadline for what the client owes now, unless it owed that before."""
        owed = self._owes()
        if owed == self._owed:
            return
        if self._deadline:
            self._deadline.cancel()
        self._owed, self._deadline = owed, None
        if owed is not None:
            self._deadline = self.loop.call_later(owed, self._give_up)

    def _owes(self) -> float | None:
        """Return how long the client may take for what it owes; None for nothing."""
        if self not in self.connections:
            return None
        if self.flow.write_paused:
            return bounds.TAKE_S
        if self.cycle and not self.cycle.response_complete:
            return None
        rest = self.conn.their_state is h11.SEND_BODY
        return bounds.REST_S if rest else bounds.HEAD_S

    def _give_up(self) -> None:
        if self.flow.write_paused or self.transport.is_closing():
            self.transport.abort()
        else:
            self.transport.close()


def serve(
    app: Starlette,
    listeners: Sequence[Listener],
    *,
    ready: Callable[[], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is being answered within STOP_S.

    ``ready`` is called once all sockets are served, ``stopping`` as soon as the server
    is told to stop.
    """
    # Shells allow 1024 files at first.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def main() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await served(app, listeners, stop, ready, stopping)

    asyncio.run(main())


async def served(
    app: Any,  # noqa: ANN401 - any ASGI application of Starlette's
    listeners: Sequence[Listener],
    stop: asyncio.Event,
    ready: Callable[[], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until ``stop`` is set; the rest is as for ``serve``."""
    # asyncio keeps a buffer of 256 KiB for each connection by TLS, however idle.
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER
    state = ServerState()
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=bounds.MOST_HEAD_BYTES,
    )
    config.load()
    loop, open = asyncio.get_running_loop(), Counter[str]()
    async with app.router.lifespan_context(app):
        servers = [
            await loop.create_server(
                partial(PatientProtocol, config, state, {}),
                sock=BoundedListener(one.bound, open),
                backlog=listening.BACKLOG,
                ssl=one.tls,
                ssl_handshake_timeout=bounds.HANDSHAKE_S if one.tls else None,
                ssl_shutdown_timeout=bounds.STOP_S if one.tls else None,
            )
            for one in listeners
        ]
        ready()
        await stop.wait()
        stopping()
        for server in servers:
            server.close()
        for connection in [*state.connections]:
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bounds.STOP_S):
                while state.connections:
                    await asyncio.sleep(LOOK_S)
