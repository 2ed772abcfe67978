"""A server's log: one line of JSON on stderr for each request and each step.

A line has the time, the step, and its facts; what clients sent is cut, and its control
characters are escapes. No token, code or secret comes here.
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import TextIO

from msgspec import json

from runner.core.screen import json_safe

NAME = "rai.server"
LOGGERS = (NAME, "asyncio", "uvicorn", "uvicorn.error")
MOST_CHARACTERS = 500
MOST_TRACE = 20_000

Fact = str | int | float | bool | None

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


def _said_otherwise(record: logging.LogRecord) -> bool:
    """Drop what uvicorn says of a stream that was ended: the request's line has it."""
    return "without completing response" not in record.getMessage()


def to_stream(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Send the log of this process, uvicorn's too, to a stream: stderr by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_said_otherwise)
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
