"""A client of tests that follows a run, and keeps copies of its files."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from runner.core.wire import FILES, MOST_HEADER_BYTES, RemoteRun, TailHeader, from_line
from tests.kit.web import ANSWER_S, UnixConnection, WebServer


class Follower:
    """Copies of a run's files as they come; ``copies`` may be those of a break."""

    def __init__(self, web: WebServer, token: str, run_id: str) -> None:
        self.web, self.token, self.run_id = web, token, run_id
        self.copies = {name: bytearray() for name in FILES}
        self.headers: list[TailHeader] = []
        self.link: UnixConnection | None = None

    @property
    def runs(self) -> list[RemoteRun]:
        """What the answers said of where the run stands."""
        return [header.run for header in self.headers]

    @property
    def over(self) -> TailHeader | None:
        """The last answer, if nothing comes after it."""
        return next((header for header in self.headers if header.over), None)

    def ask(self, wait_s: int = 20) -> None:
        """Ask for what comes after the copies."""
        at = {name.split(".")[0]: len(data) for name, data in self.copies.items()}
        query = "&".join(f"{name}={size}" for name, size in at.items())
        self.link = self.link or self.web.connection()
        headers = {"Authorization": f"Bearer {self.token}"}
        path = f"/api/v1/runs/{self.run_id}/tail?{query}&wait={wait_s}"
        self.link.request("GET", path, headers=headers)

    def take(self) -> bool:
        """Take an answer; return whether all of it came."""
        assert self.link
        with self.link.getresponse() as answer:
            line = answer.readline(MOST_HEADER_BYTES)
            assert answer.status == 200, line
            if not line.endswith(b"\n"):
                return False
            header = from_line(line)
            for name in FILES:
                data = answer.read(header.sizes[name])
                self.copies[name] += data
                if len(data) < header.sizes[name]:
                    return False
            assert answer.read() == b""
        self.headers.append(header)
        return True

    def follow(self) -> None:
        """Follow to the end, or to a break; the first answer does not wait."""
        wait_s = 0
        with suppress(OSError):
            while not self.over:
                self.ask(wait_s)
                if not self.take():
                    break
                wait_s = 1
        self.close()

    def close(self) -> None:
        """Leave."""
        if self.link:
            self.link.close()
        self.link = None

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
