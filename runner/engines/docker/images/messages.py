"""The engine's own tellings while it pulls, pushes or builds: one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from runner.core.cancel import Cancel
from runner.engines.docker.client import Client, capture, connect, hang_up
from runner.engines.docker.endpoint import Answer
from runner.engines.docker.exec.background import Feed

POLL_S = 0.1

Message = dict[str, Any]


class OutOfTimeError(Exception):
    """The engine took longer than it was given."""


def messages(
    answer: Answer,
    ask: Callable[[Client], Iterable[Message]],
    cancel: Cancel,
    time_s: float = float("inf"),
) -> Iterator[Message]:
    """Ask the engine and give what it tells; stop the engine on cancel or too late.

    The connection is the question's own: hanging up is how the engine is told to stop.
    """
    client = connect(answer, timeout_s=None)
    responses = capture(client)

    def stop() -> None:
        for response in responses:
            hang_up(response)

    feed: Feed[Message] = Feed(lambda: ask(client), stop)
    until = time.monotonic() + time_s
    try:
        while not (feed.done or cancel.requested):
            message = feed.take(POLL_S)
            if message is not None:
                yield message
            elif time.monotonic() > until:
                raise OutOfTimeError
    finally:
        feed.close()
        client.close()
