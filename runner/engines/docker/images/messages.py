"""The engine's progress messages while it pulls, pushes or builds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import Struct, field

from runner.background import BackgroundReader
from runner.core.cancel import Cancel
from runner.core.errors import EngineError
from runner.engines.docker.client import (
    Client,
    capture,
    connect,
    failing,
    hang_up,
    pulse,
)
from runner.engines.docker.endpoint import EngineProbe

POLL_S = 0.1
PIECE_BYTES = 1 << 16
LONGEST = 4 << 20
"""The most bytes of one message; it may quote a whole Dockerfile."""


class OutOfTimeError(Exception):
    """The engine took longer than the time limit."""


class ErrorDetail(Struct, frozen=True):
    """What ended a build, a pull or a push; ``code`` is a command's exit code."""

    code: int = 0
    message: str = ""


class LayerProgress(Struct, frozen=True):
    """How much of a layer has been transferred."""

    current: int | None = None
    total: int = 0


class Message(Struct, frozen=True, rename="camel"):
    """One message: a piece of a build's output, a layer's progress, or the failure."""

    stream: str = ""
    status: str = ""
    id: str = ""
    error: str = ""
    error_detail: ErrorDetail | None = None
    progress_detail: LayerProgress = field(default_factory=LayerProgress)


def messages(
    probe: EngineProbe,
    ask: Callable[[Client], object],
    cancel: Cancel,
    until: float = float("inf"),
    check: Callable[[], None] = lambda: None,
) -> Iterator[Message]:
    """Send a request by ``ask``, and yield the engine's messages; stop it on a cancel.

    ``check`` is called ten times a second or more, and may raise an exception to stop.

    The request has a connection of its own, since closing the connection is the only
    way to make the engine stop.

    Raises:
        OutOfTimeError: it is later than ``until``, on the monotonic clock.
        FAILURES: the request failed.
        EngineError: the engine no longer answers, or sends a message without end.
    """
    client, look = connect(probe, timeout_s=None), pulse(probe)
    responses = capture(client)

    def stop() -> None:
        for response in responses:
            hang_up(response)

    def source() -> Iterator[Message]:
        ask(client)
        sdk: Any = client
        sdk._raise_for_status(responses[-1])
        # Not by the SDK, which reads a message whole, however long it is.
        yield from decoded(responses[-1].iter_content(PIECE_BYTES))

    reader: BackgroundReader[Message] = BackgroundReader(source, stop)
    try:
        while not (reader.done or cancel.requested):
            message = reader.take(min(POLL_S, max(until - time.monotonic(), 0.0)))
            if message is not None:
                look.heard()
                yield message
            if time.monotonic() > until and not reader.done:
                raise OutOfTimeError
            check()
            with failing("go on"):
                look.check()
    finally:
        reader.close()
        client.close()
        look.close()


def decoded(pieces: Iterator[bytes]) -> Iterator[Message]:
    """Read messages, each on a line of its own.

    Raises:
        EngineError: one is longer than LONGEST, or is no message.
    """
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield from _message(b"".join((*parts, line)))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > LONGEST:
            raise EngineError(f"the Docker Engine sends over {LONGEST:,} bytes a line")
    yield from _message(b"".join(parts))


def _message(line: bytes) -> Iterator[Message]:
    text = line.decode(errors="replace").strip()
    try:
        if text:
            yield msgspec.json.decode(text, type=Message)
    except msgspec.DecodeError as error:
        raise EngineError(
            f"the Docker Engine sent what is no message: {error}"
        ) from None
