"""Servers whose answers no sound one gives."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"
Answer = Callable[[socket.socket, str], object]
"""What answers a connection; it gets the first line of the request as well."""


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[list[str], int]]:
    """Answer each connection on 127.0.0.1; yield the first lines that came, and a port.

    A connection is left 60 s after a client stopped to read or write.
    """
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def one(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.settimeout(60)
                head = b""
                while b"\r\n\r\n" not in head:
                    if not (data := connection.recv(4096)):
                        return
                    head += data
                line = head.partition(b"\r\n")[0].decode()
                asked.append(line)
                answer(connection, line)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=one, args=(connection,)).start()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield asked, server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def whole(content: bytes) -> Answer:
    """Return an answer that is a file."""
    head = OK + b"Content-Length: %d\r\n\r\n" % len(content)
    return lambda connection, _: connection.sendall(head + content)


def endlessly(begin: bytes, again: bytes, pause_s: float = 0.0) -> Answer:
    """Return an answer that never ends."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(again)
            time.sleep(pause_s)

    return answer
