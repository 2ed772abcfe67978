"""`rai server` of the next version: all that it answers has members that nobody knows.

`python -m tests.runner.server.newer server serve ...`
"""

from __future__ import annotations

import json
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.cli.main import main
from runner.server import site
from runner.server.requests import Site
from runner.wire import API, API_VERSION

MORE = {"member_of_a_newer_version": [{"a": 1}, None]}
VERSION = "99.0.0"


class NewerApp:
    """The application, whose answers are changed on their way out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as a newer server does."""
        changed = _Answer(send, scope["path"])
        await self._app(scope, receive, changed)


class _Answer:
    def __init__(self, send: Send, path: str) -> None:
        self._send, self._facts = send, path == f"{API}/"
        self._tail = path.endswith("/tail")
        self._json = False
        self._held = bytearray()
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._json = b"json" in dict(message["headers"]).get(b"content-type", b"")
            if self._json or self._tail:
                self._start = message  # its length will be another
            else:
                await self._send(message)
        elif self._json:
            self._held += message.get("body", b"")
            if not message.get("more_body"):
                await self._send_json()
        elif self._start is not None:
            await self._send_tail(self._start, message)
            self._start = None
        else:
            await self._send(message)

    async def _send_tail(self, start: Message, message: Message) -> None:
        """Change the first line of a tail, which is in its first piece."""
        line, newline, rest = message["body"].partition(b"\n")
        changed = json.dumps(_more(json.loads(line))).encode() + newline + rest
        headers = dict(start["headers"])
        length = int(headers[b"content-length"]) + len(changed) - len(message["body"])
        headers[b"content-length"] = str(length).encode()
        await self._send({**start, "headers": list(headers.items())})
        await self._send({**message, "body": changed})

    async def _send_json(self) -> None:
        assert self._start
        found = _more(json.loads(self._held)) if self._held else None
        if self._facts:
            found |= {"version": VERSION, "api": API_VERSION + 1}
        body = json.dumps(found).encode() if found is not None else b""
        length = (b"content-length", str(len(body)).encode())
        headers = [h for h in self._start["headers"] if h[0] != length[0]]
        await self._send({**self._start, "headers": [*headers, length]})
        await self._send({"type": "http.response.body", "body": body})


def _more(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _more(one) for name, one in value.items()} | MORE
    return [_more(one) for one in value] if isinstance(value, list) else value


def newer(made: Site) -> Starlette:
    """Return the application of a newer server."""
    app = usual(made)
    app.add_middleware(NewerApp)
    return app


if __name__ == "__main__":
    usual = site.make_app
    site.make_app = newer
    main()
