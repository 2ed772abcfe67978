"""Read the bodies of requests: bounded in bytes, in pace, and in how many at a time.

A body of a few MiB may become many times that as values, and one person may have
hundreds of requests under way.
"""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections.abc import AsyncIterator
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec
from anyio import move_on_after
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from runner.core import Reason
from runner.server import bounds
from runner.server.refusing import DeniedError, refuse
from runner.wire import JSON

T = TypeVar("T")


class Turns:
    """Turns for reading large bodies, and for what is done with their values."""

    def __init__(self) -> None:
        self._of_teams = WeakValueDictionary[str, Semaphore]()
        self.parsing = Semaphore(bounds.PARSED)
        """To be waited for before a body that was read is parsed, and used."""

    def reading(self, team: str) -> Semaphore:
        """Return what is waited for before a body of a team is read, and kept.

        A team's own bodies only wait for each other.
        """
        found = self._of_teams.get(team) or Semaphore(bounds.READ_OF_TEAM)
        self._of_teams[team] = found
        return found


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield a body as it comes; what comes too slowly is refused with 408.

    Raises:
        ClientDisconnect: the client has gone.
    """
    spare_s = bounds.SLOW_S
    while True:
        began = time.monotonic()
        with move_on_after(spare_s) as limit:
            message = await request.receive()
        if limit.cancelled_caught:
            text = f"less than {bounds.LEAST_RATE:g} bytes a second came"
            headers = {"Connection": "close"}
            raise refuse(Reason.BUSY, text, status=408, headers=headers)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        piece: bytes = message.get("body", b"")
        earned_s = len(piece) / bounds.LEAST_RATE
        spare_s = min(spare_s - time.monotonic() + began + earned_s, bounds.SLOW_S)
        if piece:
            yield piece
        if not message.get("more_body", False):
            return


async def read(request: Request, most: int) -> bytes:
    """Return a whole body; refuse one of more than ``most`` bytes."""
    if (announced(request) or 0) > most:
        raise _too_large(most)
    data = bytearray()
    async for piece in pieces(request):
        data += piece
        if len(data) > most:
            raise _too_large(most)
    return bytes(data)


def announced(request: Request) -> int | None:
    """Return the length that a request announces for its body."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else None


async def decoded(request: Request, kind: type[T], most: int) -> T:
    """Return a body of JSON as a value of a type; refuse any other."""
    return parsed(await read(request, most), kind)


def parsed(data: bytes, kind: type[T]) -> T:
    """Return JSON as a value of a type; refuse any other."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        text = f"the body is no {kind.__name__}: {why}"
        raise refuse(Reason.USAGE, text) from None


def answer(value: object, status: int = 200) -> Response:
    """Return a value as an answer of JSON."""
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def _too_large(most: int) -> DeniedError:
    return refuse(Reason.USAGE, f"the body is larger than {most:,} bytes", status=413)
