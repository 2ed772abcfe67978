"""Read what a command in a container prints, and send files into a container."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runner.core import Stream
from runner.engines.docker.client import Client, Pulse, UnusableError, hang_up
from runner.system.background import BackgroundReader

READ_BYTES = 1 << 18
POLL_S = 0.1
MOST_ASKED_BYTES = 1 << 16
"""The most output of a program that rai runs in a container to learn something."""

_HEADER = struct.Struct(">BxxxL")
_STREAMS = {1: Stream.STDOUT, 2: Stream.STDERR}


class Connection:
    """The connection to a started command; silence of any length does not end it."""

    def __init__(self, client: Client, execution: str, *, tty: bool = False) -> None:
        sdk: Any = client
        wire = sdk.exec_start(execution, socket=True, tty=tty)
        self._response = wire._response
        # The client's time-out would end the stream at a command's first long silence.
        sdk._disable_socket_timeout(wire)
        self._wire = getattr(wire, "_sock", wire)
        # This buffer may hold output that arrived with the headers.
        self._reader = self._response.raw._fp.fp

    def read(self, most: int) -> bytes:
        """Return what came, or wait for it; b"" at the end. Raise OSError if closed."""
        block: bytes = self._reader.read1(most)
        return block

    def write(self, data: bytes) -> None:
        """Send all of this to the command's stdin; raise OSError if that fails."""
        self._wire.sendall(data)

    def hang_up(self) -> None:
        """End every read and write; may be called from another thread."""
        hang_up(self._response)

    def release(self) -> None:
        """Release what the client holds for it, after the last read."""
        self._response.close()


def attach(
    client: Client, execution: str, is_last: Callable[[], bool] = lambda: False
) -> BackgroundReader[bytes]:
    """Start a created command and return a reader of its frames.

    Silence of any length does not end it; closing the reader does.
    """
    connection = Connection(client, execution)

    def blocks() -> Iterator[bytes]:
        try:
            while block := connection.read(READ_BYTES):
                yield block
        except OSError:  # closed by hang_up
            return
        finally:
            connection.release()

    return BackgroundReader(blocks, connection.hang_up, is_last)


def hold_stdin(client: Client, container: str) -> Callable[[], None]:
    """Keep a created container's stdin open; return what closes it.

    The engine also closes it when this process dies, as its connection does too.
    """
    sdk: Any = client
    socket = sdk.attach_socket(container, params={"stdin": 1, "stream": 1})
    response = socket._response

    def let_go() -> None:
        hang_up(response)
        response.close()

    return let_go


def ask(
    client: Client,
    container: str,
    command: Sequence[str],
    time_s: float,
    user: str = "",
) -> str:
    """Return what a command in a container prints to stdout.

    ``user`` is whom it runs as; "" is the user of the container's own process.

    Raises:
        UnusableError: it prints too much or takes longer than ``time_s``; the program
            is the image's own and may do anything.
    """
    # In /, as /build may be closed to all but the commands' user.
    made = client.exec_create(
        container, list(command), stderr=False, user=user, workdir="/"
    )
    reader, frames, output = attach(client, made["Id"]), Demultiplexer(), b""
    until = time.monotonic() + time_s
    try:
        while not reader.done:
            block = reader.take(max(until - time.monotonic(), 0.0))
            output += b"".join(data for _, data in frames.feed(block or b""))
            if len(output) > MOST_ASKED_BYTES:
                raise UnusableError(f"the image's `{command[0]}` prints without end")
            if block is None and not reader.done:
                raise UnusableError(
                    f"the image's `{command[0]}` takes over {time_s:g} s"
                )
    finally:
        reader.close()
    return output.decode(errors="replace")


def upload(
    client: Client,
    container: str,
    folder: str,
    pieces: Iterator[bytes],
    sent: Callable[[int], None],
) -> None:
    """Unpack a tar stream in a container, without a time-out.

    ``sent`` is called with 0 every POLL_S and raises an exception to stop the upload.
    Raise one of FAILURES if the engine no longer answers.
    """
    pulse = Pulse(client)

    def noted() -> Iterator[bytes]:
        for piece in pieces:
            pulse.heard()
            yield piece

    sdk: Any = client  # its put_archive takes no time-out

    def put() -> Iterator[None]:
        address = sdk._url("/containers/{0}/archive", container)
        response = sdk._put(
            address, params={"path": folder}, data=noted(), timeout=None
        )
        sdk._raise_for_status(response)
        yield

    reader: BackgroundReader[None] = BackgroundReader(put, lambda: None)
    try:
        while not reader.done:
            reader.take(POLL_S)
            sent(0)
            pulse.check()
    finally:
        reader.close()


class Demultiplexer:
    """A splitter of blocks, cut anywhere, into the bytes of each stream, in order.

    An incomplete frame is passed on as far as it has come, so that memory use does not
    depend on a frame's length.
    """

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._stream = Stream.STDOUT

    def feed(self, block: bytes) -> list[tuple[Stream, bytes]]:
        """Return the block's content; adjacent pieces of one stream are joined."""
        view = memoryview(block)
        runs: list[tuple[Stream, list[memoryview]]] = []
        at, end = 0, len(block)
        while at < end:
            if not self._left:
                at = self._take_header(block, at)
                continue
            size = min(self._left, end - at)
            if not runs or runs[-1][0] is not self._stream:
                runs.append((self._stream, []))
            runs[-1][1].append(view[at : at + size])
            self._left -= size
            at += size
        return [(stream, b"".join(pieces)) for stream, pieces in runs]

    def _take_header(self, block: bytes, at: int) -> int:
        piece = block[at : at + _HEADER.size - len(self._head)]
        self._head += piece
        if len(self._head) == _HEADER.size:
            kind, self._left = _HEADER.unpack(self._head)
            self._stream = _STREAMS.get(kind, Stream.STDOUT)
            self._head = b""
        return at + len(piece)
