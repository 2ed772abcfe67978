"""A way to a Docker Engine on which one call fails."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path

_REQUEST = re.compile(rb"(GET|HEAD|POST|PUT|DELETE) (\S+) HTTP/1\.1\r\n")
_REFUSAL = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\n"
    b'Content-Length: 27\r\nConnection: close\r\n\r\n{"message":"made to fail"}\r\n'
)


class How(Enum):
    """What becomes of the call: the engine never gets it, or its answer is lost."""

    REFUSED = "refused"
    UNHEARD = "unheard"


class FailingCalls:
    """Pass all calls on to an engine's socket but the one numbered ``fails``."""

    def __init__(self, engine: Path, fails: int, how: How) -> None:
        self._engine, self._fails, self._how = engine, fails, how
        self._lock = threading.Lock()
        self.calls: list[str] = []

    def serve(self, server: socket.socket) -> None:
        """Take connections until the socket is closed."""
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=self._pass, args=[client], daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        engine = socket.socket(socket.AF_UNIX)
        engine.connect(str(self._engine))
        unheard = threading.Event()
        back = threading.Thread(
            target=self._back, args=(engine, client, unheard), daemon=True
        )
        back.start()
        with client, engine, suppress(OSError):
            while data := client.recv(1 << 18):
                if self._is_chosen(data):
                    if self._how is How.REFUSED:
                        client.sendall(_REFUSAL)
                        return
                    unheard.set()
                engine.sendall(data)
            engine.shutdown(socket.SHUT_WR)
            back.join()

    def _back(
        self, engine: socket.socket, client: socket.socket, unheard: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := engine.recv(1 << 18):
                if unheard.is_set():
                    break
                client.sendall(data)
        for end in (client, engine):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_chosen(self, data: bytes) -> bool:
        if (found := _REQUEST.match(data)) is None:
            return False
        with self._lock:
            self.calls.append(found[0].decode().strip())
            return len(self.calls) - 1 == self._fails


@contextmanager
def passing(
    engine: Path, server: socket.socket, fails: int = -1, how: How = How.REFUSED
) -> Iterator[FailingCalls]:
    """Serve a socket as the engine's own, but for one call."""
    calls = FailingCalls(engine, fails, how)
    threading.Thread(target=calls.serve, args=[server], daemon=True).start()
    yield calls
    server.shutdown(socket.SHUT_RDWR)


@contextmanager
def failing(
    engine: Path, folder: Path, fails: int = -1, how: How = How.REFUSED
) -> Iterator[tuple[str, FailingCalls]]:
    """Yield the address of an engine on which the call ``fails`` does not succeed."""
    path = folder / f"{fails}-{how.value}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(64)
        with passing(engine, server, fails, how) as calls:
            yield f"unix://{path}", calls
