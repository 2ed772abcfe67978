"""HTTP messages read within bounds, answers, refusals, and the log of a server."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import TextIO, TypeVar

from anyio import move_on_after
from msgspec import json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from runner.core import Problem, Reason
from runner.core.screen import json_safe
from runner.core.wire import JSON, PROBLEM_JSON, Refusal
from runner.server import bounds

NAME = "rai.server"
LOGGERS = (NAME, "asyncio", "uvicorn", "uvicorn.error")
BUSY_S = 5.0
"""After how many seconds to ask again where nothing tells a better time."""

MOST_CHARACTERS = 500
MOST_TRACE = 20_000

_STATUS = {
    Reason.USAGE: 400,
    Reason.BAD_SPEC: 400,
    Reason.BAD_CONFIG: 400,
    Reason.NOT_ALLOWED: 403,
    Reason.NO_GPU: 409,
    Reason.RATE_LIMIT: 429,
    Reason.BUSY: 503,
}

Fact = str | int | float | bool | None
T = TypeVar("T")

_log = logging.getLogger(NAME)


class JsonLines(logging.Formatter):
    """Write each record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        facts: dict[str, Fact] = getattr(record, "facts", {})
        line: dict[str, Fact] = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "step": record.getMessage(),
            **{name: _cut(value) for name, value in facts.items()},
        }
        if record.exc_info and record.exc_info[0]:
            trace = "".join(traceback.format_exception(*record.exc_info))
            line["trace"] = trace[-MOST_TRACE:]
        return json_safe(json.encode(line).decode())


def to_stream(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the log of this process, uvicorn's too, to a stream: stderr by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    # uvicorn's words about a stream that was ended: the request's line has it.
    ended = "without completing response"
    handler.addFilter(lambda record: ended not in record.getMessage())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        # uvicorn warns of each request that is none.
        logger.setLevel(level if name == NAME else logging.ERROR)


def step(name: str, /, **facts: Fact) -> None:
    """Write that something happened."""
    _log.info(name, extra={"facts": facts})


def fault(name: str, error: BaseException, **facts: Fact) -> None:
    """Write an error of the server, with its traceback."""
    _log.error(name, exc_info=error, extra={"facts": facts})


def _cut(value: Fact) -> Fact:
    if not isinstance(value, str):
        return value
    # A name of a file or an address may hold half of a character.
    text = value.encode(errors="backslashreplace").decode()
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


class DeniedError(HTTPException):
    """A request that is refused, and the answer that says why."""

    def __init__(self, refusal: Refusal, headers: Mapping[str, str] | None) -> None:
        super().__init__(refusal.status, refusal.title, headers)
        self.refusal = refusal

    def response(self, now: float) -> Response:
        """Return the answer, as problem details of RFC 9457."""
        found, headers = self.refusal, {}
        if found.retry_at is not None:
            headers["Retry-After"] = str(max(1, round(found.retry_at - now)))
        elif found.status == 503:
            headers["Retry-After"] = str(round(BUSY_S))
        headers |= self.headers or {}
        body = json.encode(found)
        return Response(body, found.status, headers, media_type=PROBLEM_JSON)


def refuse(
    reason: Reason,
    *problems: Problem | str,
    status: int | None = None,
    hint: str = "",
    retry_at: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> DeniedError:
    """Return the error for a reason; ``hint`` is of a problem given as text."""
    status = status or _STATUS.get(reason, 500)
    found = tuple(
        one if isinstance(one, Problem) else Problem(one, hint=hint) for one in problems
    )
    title = HTTPStatus(status).phrase
    return DeniedError(Refusal(status, title, reason, found, retry_at), headers)


def nothing(what: str) -> DeniedError:
    """Return the error for what is not there, or is another team's."""
    return refuse(Reason.USAGE, f"there is no such {what}", status=404)


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """Yield a body as it comes; refuse one that comes too slowly with 408.

    Raises:
        ClientDisconnect: the client has gone.
    """
    spare_s = bounds.SLOW_S
    async with aclosing(request.stream()) as stream:
        while True:
            began = time.monotonic()
            with move_on_after(spare_s) as limit:
                piece = await anext(stream)
            if limit.cancelled_caught:
                text = f"less than {bounds.LEAST_RATE:g} bytes a second came"
                headers = {"Connection": "close"}
                raise refuse(Reason.BUSY, text, status=408, headers=headers)
            if not piece:  # Starlette's sign of the end
                return
            earned_s = len(piece) / bounds.LEAST_RATE + began - time.monotonic()
            spare_s = min(spare_s + earned_s, bounds.SLOW_S)
            yield piece


async def read(request: Request, most: int) -> bytes:
    """Return a whole body; refuse one of more than ``most`` bytes."""
    data = bytearray()
    size = announced(request) or 0
    if size <= most:
        async for piece in pieces(request):
            data += piece
            if (size := len(data)) > most:
                break
    if size > most:
        text = f"the body is larger than {most:,} bytes"
        raise refuse(Reason.USAGE, text, status=413)
    return bytes(data)


def announced(request: Request) -> int | None:
    """Return the length that a request announces for its body."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else None


async def decoded(request: Request, kind: type[T]) -> T:
    """Return a small body of JSON as a value of a type; refuse any other."""
    return parsed(await read(request, bounds.MOST_SMALL_BODY), kind)


def parsed(data: bytes, kind: type[T]) -> T:
    """Return JSON as a value of a type; refuse any other."""
    try:
        return json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise refuse(Reason.USAGE, f"the body is no {kind.__name__}: {why}") from None


def answer(value: object, status: int = 200) -> Response:
    """Return a value as an answer of JSON."""
    return Response(json.encode(value), status, media_type=JSON)
