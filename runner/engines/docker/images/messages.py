"""The engine's progress messages while it pulls, pushes or builds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runner.background import BackgroundReader
from runner.core.cancel import Cancel
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

Message = dict[str, Any]


class OutOfTimeError(Exception):
    """The engine took longer than the time limit."""


def messages(
    probe: EngineProbe,
    ask: Callable[[Client], Iterable[Message]],
    cancel: Cancel,
    time_s: float = float("inf"),
) -> Iterator[Message]:
    """Send a request and yield the engine's messages; stop it on a cancel.

    The request has a connection of its own, since closing the connection is the only
    way to make the engine stop.

    Raises:
        OutOfTimeError: no message came and ``time_s`` have passed.
        FAILURES: the request failed.
        EngineError: the engine no longer answers.
    """
    client, look = connect(probe, timeout_s=None), pulse(probe)
    responses = capture(client)

    def stop() -> None:
        for response in responses:
            hang_up(response)

    reader: BackgroundReader[Message] = BackgroundReader(lambda: ask(client), stop)
    until = time.monotonic() + time_s
    try:
        while not (reader.done or cancel.requested):
            message = reader.take(POLL_S)
            if message is not None:
                look.heard()
                yield message
            elif time.monotonic() > until:
                raise OutOfTimeError
            with failing("go on"):
                look.check()
    finally:
        reader.close()
        client.close()
        look.close()
