"""A small HTTP server in threads that plays the part of a server of rai."""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN = "rai_17_secret"
ME = {
    "person": "ada",
    "team": "kernels",
    "role": "student",
    "token_id": "17",
    "scopes": ["run"],
    "expires_at": None,
    "limits": {"at_once": 2, "left_today": 5},
}
FACTS = {"version": "0.1.0", "api": 1, "least_client": "0.1.0", "time": 0.0}
WAITING = {"id": "0123456789", "state": "waiting", "team": "kernels", "queued_at": 1.0}

Answer = tuple[int, dict[str, str], bytes]
Play = Callable[["Playing"], Answer | None]
"""Answers one request; None if it wrote, or broke, the answer itself."""


def as_json(value: object, status: int = 200) -> Answer:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def refusal(status: int, title: str = "no", **more: object) -> Answer:
    said = {"status": status, "title": title, **more}
    return (
        status,
        {"Content-Type": "application/problem+json"},
        json.dumps(said).encode(),
    )


class Playing(BaseHTTPRequestHandler):
    """One request; what answers it is the server's ``plays`` by method and path."""

    protocol_version = "HTTP/1.1"
    server: PlayedServer

    def play(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/v1")
        self.server.asked.append((self.command, self.path, dict(self.headers)))
        play = self.server.plays.get((self.command, path)) or self.server.otherwise
        answer = play(self)
        if answer is not None:
            status, headers, body = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = play

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def break_off(self) -> None:
        """Close the connection at once, so that the other side notices."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def address_string(self) -> str:
        return "client"


class PlayedServer(ThreadingHTTPServer):
    """Answers by what a test plays; remembers what was asked."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, *given: Any, **options: Any) -> None:
        self.plays: dict[tuple[str, str], Play] = {
            ("GET", "/"): lambda _: as_json(FACTS),
            ("GET", "/me"): lambda _: as_json(ME),
            ("POST", "/login"): self.login,
            ("DELETE", "/tokens/current"): lambda _: (204, {}, b""),
        }
        self.otherwise: Play = lambda _: refusal(404, "there is nothing")
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.code = "correct-horse"
        self.uploads: dict[str, bytes] = {}
        self.breaks: list[int] = []
        super().__init__(*given, **options)

    def login(self, request: Playing) -> Answer:
        given = json.loads(request.body())
        if given["code"] != self.code:
            return refusal(400, "there is no such code", reason="usage")
        return as_json({"token": TOKEN, "me": ME}, 201)

    def upload(self, request: Playing) -> Answer | None:
        """Take a file whole; break off after so many bytes, as ``breaks`` has them."""
        sha256 = request.path.partition("?")[0].rpartition("/")[2]
        if request.command == "GET":
            return (204, {}, b"") if sha256 in self.uploads else refusal(404)
        if self.breaks:
            request.rfile.read(self.breaks.pop(0))
            request.break_off()
            return None
        self.uploads[sha256] = request.body()
        return 201, {}, b""

    def handle_error(self, *_: object) -> None:
        """Ignore errors: tests break connections."""


class _UnixServer(PlayedServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "localhost", 0


@contextmanager
def serving(
    tls: ssl.SSLContext | None = None, socket_path: Path | None = None
) -> Iterator[tuple[PlayedServer, str]]:
    """Yield a server that answers, and its address."""
    if socket_path is not None:
        server: PlayedServer = _UnixServer(str(socket_path), Playing)
        url = f"unix://{socket_path}"
    else:
        server = PlayedServer(("127.0.0.1", 0), Playing)
        scheme = "http"
        if tls is not None:
            scheme = "https"
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server, url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
