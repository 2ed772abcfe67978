"""`rai server` of the next version: all that it answers has members that nobody knows.

`python -m tests.runner.server.newer server serve ...`
"""

from __future__ import annotations

import json
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from runner.cli.main import main
from runner.server import site
from runner.wire import API, API_VERSION, FRAMES

MORE = {"member_of_a_newer_version": [{"a": 1}, None]}
VERSION = "99.0.0"


class NewerApp:
    """The application, whose answers are changed on their way out."""

    def __init__(self, app: Any) -> None:
        self._app, self.state = app, app.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as a newer server does."""
        changed = _Answer(send, facts=scope["path"] == f"{API}/")
        await self._app(scope, receive, changed)


class _Answer:
    def __init__(self, send: Send, *, facts: bool) -> None:
        self._send, self._facts = send, facts
        self._kind = b""
        self._held = bytearray()
        self._bytes_left = 0
        self._start: Message = {}

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            self._kind = headers.get(b"content-type", b"")
            if b"json" in self._kind:
                self._start = message  # its length will be another
            else:
                await self._send(message)
        elif b"json" in self._kind:
            self._held += message.get("body", b"")
            if not message.get("more_body"):
                await self._send_json()
        else:
            body = message.get("body", b"")
            if FRAMES.encode() in self._kind:
                body = self._frames(body)
            await self._send({**message, "body": body})

    async def _send_json(self) -> None:
        found = _more(json.loads(self._held)) if self._held else None
        if self._facts:
            found |= {"version": VERSION, "api": API_VERSION + 1}
        body = json.dumps(found).encode() if found is not None else b""
        length = (b"content-length", str(len(body)).encode())
        headers = [h for h in self._start["headers"] if h[0] != length[0]]
        await self._send({**self._start, "headers": [*headers, length]})
        await self._send({"type": "http.response.body", "body": body})

    def _frames(self, data: bytes) -> bytes:
        """Change the headers of frames, wherever pieces of the stream end."""
        self._held += data
        out = bytearray()
        while self._held:
            if self._bytes_left:
                piece = self._held[: self._bytes_left]
                del self._held[: len(piece)]
                self._bytes_left -= len(piece)
                out += piece
            elif b"\n" in self._held:
                end = self._held.index(b"\n") + 1
                header = json.loads(self._held[:end])
                del self._held[:end]
                self._bytes_left = header.get("size", 0)
                out += json.dumps(_more(header)).encode() + b"\n"
            else:
                break
        return bytes(out)


def _more(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _more(one) for name, one in value.items()} | MORE
    return [_more(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    usual = site.make_app
    site.make_app = lambda made: NewerApp(usual(made))
    main()
