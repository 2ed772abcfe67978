"""HTTP at a Unix socket, for requests."""

from __future__ import annotations

import socket
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import NewConnectionError


class _SocketConnection(HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, *given: Any, socket_path: str, **options: Any) -> None:  # noqa: ANN401
        super().__init__(*given, **options)
        self._path = socket_path

    def connect(self) -> None:
        """Connect to the socket."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(self.timeout)
            made.connect(self._path)
        except OSError as error:
            made.close()
            raise NewConnectionError(self, str(error)) from error
        self.sock = made


class _SocketPool(HTTPConnectionPool):
    """Connections to one Unix socket."""

    ConnectionCls = _SocketConnection


class UnixAdapter(HTTPAdapter):
    """What carries the requests of a session to one Unix socket, never to a proxy."""

    def __init__(self, path: str) -> None:
        self._pool = _SocketPool("localhost", socket_path=path)
        super().__init__(max_retries=0)

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> _SocketPool:  # noqa: ANN401
        """Return the pool."""
        return self._pool

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        super().close()
