"""Serve an application on several sockets at once, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import h11
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from runner.server.accepting import (
    MOST_CONNECTIONS,
    BoundedListener,
    raise_file_limit,
)

MOST_HEAD_BYTES = 32 << 10
"""Request line and headers together; h11 answers more with 400."""

HEAD_S = 20.0
"""How long a client may take for the headers of a request."""

STUCK_S = 90.0
"""How long a client may take for a piece of an answer, at most some 256 KiB."""

IDLE_S = 75.0
STOP_S = 5.0


class Listener(Struct, frozen=True):
    """A bound socket, and the certificate and key that it is served with, if any."""

    bound: socket.socket
    tls: tuple[Path, Path] | None = None


class PatientProtocol(H11Protocol):
    """HTTP that closes a connection whose request does not come, or that is stuck.

    uvicorn bounds the time between requests only, so that a client that sends a header
    now and then, or nothing, would hold its connection for ever. So would one that
    takes nothing of an answer: a connection is closed once all is sent.
    """

    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        # So that a pause of writing means that something waits for the client. With 0
        # a transport of TLS pauses for nothing. Part of a TLS handshake may wait, so
        # that this pauses at once, which needs what connection_made made.
        transport.set_write_buffer_limits(high=1, low=0)
        self._expect()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(STUCK_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has taken all."""
        self._free()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take what came; wait again where it ends within a request's headers."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel()
        elif self._late is None:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._cancel()
        self._free()
        super().connection_lost(exc)

    def _expect(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self._give_up)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _free(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _give_up(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """One of several servers of a loop, which leaves signals to their owner."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(
    app: Any,  # noqa: ANN401 - any ASGI application
    listeners: Sequence[Listener],
    *,
    ready: Callable[[], None],
    stopping: Callable[[], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then end what is being answered within STOP_S.

    ``ready`` is called once all sockets are served, ``stopping`` as soon as the server
    is told to stop.
    """
    raise_file_limit()
    asyncio.run(_serve(app, listeners, ready, stopping))


async def _serve(
    app: Any,  # noqa: ANN401 - as above
    listeners: Sequence[Listener],
    ready: Callable[[], None],
    stopping: Callable[[], None],
) -> None:
    servers = [_Server(_config(app, one)) for one in listeners]

    def stop() -> None:
        if not any(server.should_exit for server in servers):
            stopping()
        for server in servers:
            server.force_exit = server.should_exit  # asked for twice
            server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    tasks = [
        asyncio.create_task(server.serve([BoundedListener(one.bound)]))
        for server, one in zip(servers, listeners, strict=True)
    ]
    while not all(server.started for server in servers):
        if any(task.done() for task in tasks):
            break
        await asyncio.sleep(0.01)
    else:
        ready()
    try:
        await asyncio.gather(*tasks)
    finally:
        stop()


def _config(app: Any, listener: Listener) -> uvicorn.Config:  # noqa: ANN401 - as above
    tls: dict[str, Any] = {}
    if listener.tls:
        certificate, key = listener.tls
        tls = {"ssl_certfile": certificate, "ssl_keyfile": key}
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
        timeout_keep_alive=int(IDLE_S),
        timeout_graceful_shutdown=int(STOP_S),
        limit_concurrency=MOST_CONNECTIONS,
        **tls,
    )
    config.load()
    if config.ssl:
        config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    return config
