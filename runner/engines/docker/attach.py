"""The streams of a container: what a command in it prints, and what is sent into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runner.engines.docker.client import Client, UnusableError, hang_up
from runner.engines.docker.exec.background import Feed
from runner.engines.docker.exec.frames import Demultiplexer

READ_BYTES = 1 << 18
POLL_S = 0.1
MOST_ASKED_BYTES = 1 << 16
"""More than any program of an image prints that answers a question of rai's."""


def attach(
    client: Client, execution: str, is_last: Callable[[], bool] = lambda: False
) -> Feed[bytes]:
    """Start a created command, and read its frames however long it is silent.

    Whoever takes them ends the wait by closing the feed.
    """
    sdk: Any = client
    socket = sdk.exec_start(execution, socket=True)
    response = socket._response
    # With the client's time-out the stream would end at a command's first long silence.
    sdk._disable_socket_timeout(socket)

    def blocks() -> Iterator[bytes]:
        # This buffer may hold output that came together with the headers.
        reader = response.raw._fp.fp
        try:
            while block := reader.read1(READ_BYTES):
                yield block
        except OSError:  # hung up
            return
        finally:
            response.close()

    return Feed(blocks, lambda: hang_up(response), is_last)


def ask(client: Client, container: str, command: Sequence[str], time_s: float) -> str:
    """Return what a command in a container prints to stdout.

    The program is the image's own, and may be anything: UnusableError where it prints
    too much or takes longer than ``time_s``.
    """
    made = client.exec_create(container, list(command), stderr=False)
    feed, frames, said = attach(client, made["Id"]), Demultiplexer(), b""
    until = time.monotonic() + time_s
    try:
        while not feed.done:
            block = feed.take(max(until - time.monotonic(), 0.0))
            said += b"".join(data for _, data in frames.feed(block or b""))
            if len(said) > MOST_ASKED_BYTES:
                raise UnusableError(f"the image's `{command[0]}` prints without end")
            if block is None and not feed.done:
                raise UnusableError(
                    f"the image's `{command[0]}` takes over {time_s:g} s"
                )
    finally:
        feed.close()
    return said.decode(errors="replace")


def upload(
    client: Client,
    container: str,
    folder: str,
    pieces: Iterator[bytes],
    sent: Callable[[int], None],
) -> None:
    """Unpack a tar stream in a container, however long the engine takes over it.

    ``sent`` is called all the while, and raises where the upload is given up.
    """
    sdk: Any = client  # its own put_archive has no time-out to choose

    def put() -> Iterator[None]:
        address = sdk._url("/containers/{0}/archive", container)
        answer = sdk._put(address, params={"path": folder}, data=pieces, timeout=None)
        sdk._raise_for_status(answer)
        yield

    feed: Feed[None] = Feed(put, lambda: None)
    try:
        while not feed.done:
            feed.take(POLL_S)
            sent(0)
    finally:
        feed.close()
