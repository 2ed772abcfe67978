"""Split the engine's stream of frames into stdout and stderr."""

from __future__ import annotations

import struct

from runner.core import Stream

_HEADER = struct.Struct(">BxxxL")
_STREAMS = {1: Stream.STDOUT, 2: Stream.STDERR}


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
