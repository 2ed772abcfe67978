"""A client of tests that follows a run, and keeps copies of its files."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from runner.wire.frames import (
    FILES,
    MOST_HEADER_BYTES,
    Beat,
    Done,
    FilePart,
    Latest,
    Status,
    from_line,
)
from tests.runner.server.web import ANSWER_S, UnixConnection, WebServer


class Follower:
    """Copies of a run's files as they come; ``copies`` may be those of a break."""

    def __init__(self, web: WebServer, token: str, run_id: str) -> None:
        self.web, self.token, self.run_id = web, token, run_id
        self.copies = {name: bytearray() for name in FILES}
        self.statuses: list[Status] = []
        self.latest: list[str] = []
        self.beats = 0
        self.done: Done | None = None
        self.seen: Callable[[str, bytes], None] = lambda file, data: None
        self.link: UnixConnection | None = None

    def open(self) -> None:
        """Ask for what comes after the copies."""
        at = {name.split(".")[0]: len(data) for name, data in self.copies.items()}
        query = "&".join(f"{name}={size}" for name, size in at.items())
        self.link = self.web.connection()
        headers = {"Authorization": f"Bearer {self.token}"}
        path = f"/api/v1/runs/{self.run_id}/follow?{query}"
        self.link.request("GET", path, headers=headers)
        self.answer = self.link.getresponse()
        assert self.answer.status == 200, self.answer.read()

    def frame(self) -> bool:
        """Take one frame; return whether the stream goes on."""
        line = self.answer.readline(MOST_HEADER_BYTES)
        if not line.endswith(b"\n"):
            return False
        match from_line(line):
            case FilePart(file, at, size):
                copy = self.copies[file]
                assert at == len(copy), f"{file} goes on at {at}, not {len(copy)}"
                data = self.answer.read(size)
                copy += data
                if len(data) < size:
                    return False
                self.seen(file, data)
            case Status() as status:
                self.statuses.append(status)
            case Latest(text):
                self.latest.append(text)
            case Beat():
                self.beats += 1
            case Done() as done:
                self.done = done
                return False
        return True

    def follow(self) -> None:
        """Follow to the end, or to a break."""
        self.open()
        try:
            while self.frame():
                pass
        except OSError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Leave."""
        if self.link:
            self.answer.close()
            self.link.close()

    def break_off(self) -> None:
        """End the connection from another thread, as a network does."""
        assert self.link
        if self.link.sock:
            self.link.sock.shutdown(socket.SHUT_RDWR)

    def thread(self) -> threading.Thread:
        """Follow in a thread, which is started."""
        thread = threading.Thread(target=self.follow)
        thread.start()
        return thread


def joined(*threads: threading.Thread) -> None:
    """Wait for threads that must end."""
    for thread in threads:
        thread.join(ANSWER_S)
        assert not thread.is_alive()
