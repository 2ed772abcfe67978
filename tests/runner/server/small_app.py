"""Serve a small application: `-m tests.runner.server.small_app SOCKET HEAD_S [PEM]`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from runner.server import listening, serving


async def app(scope, receive, send):
    """Answer with two bytes; at /slow never end."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/slow":
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await asyncio.sleep(600)
    await send({"type": "http.response.body", "body": b"ok"})


if __name__ == "__main__":
    pem = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    tls = None if pem is None else (pem, pem)
    serving.HEAD_S, serving.STOP_S = float(sys.argv[2]), 1.0
    serving.serve(
        app,
        [serving.Listener(listening.unix(Path(sys.argv[1]), 0o600), tls)],
        ready=lambda: os.write(1, b"r"),
        stopping=lambda: os.write(1, b"s"),
    )
