"""Blocks of a stream, hashed and compressed by threads while the next is filled."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import BinaryIO, Self

import zstandard

from runner.model.noun import noun

BLOCK_BYTES = 8 << 20
"""One zstd frame each: large enough that frames cost nothing in size."""

MOST_THREADS = 4
"""As many as hashing, which is one thread's work, keeps up with."""

# Looks back over the whole block: level 3's size, within 4 %, at 4/5 of its work.
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(
    2, window_log=BLOCK_BYTES.bit_length() - 1, hash_log=17
)


class _Block:
    """Room for one frame's bytes, and its own compressor; both are used again."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(BLOCK_BYTES))
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def frame(self, length: int) -> bytes:
        return self._compressor.compress(self.view[:length])


@noun
class _InFlight:
    block: _Block
    hashed: Future[None]
    packed: Future[bytes]


class Blocks:
    """Writes a stream as zstd frames; a context manager that ends its threads.

    One thread hashes, the others compress; neither holds the interpreter's lock.
    """

    def __init__(self, out: BinaryIO) -> None:
        threads = min(os.cpu_count() or 1, MOST_THREADS)
        self.raw_bytes = 0
        self._out = out
        self._sha256 = hashlib.sha256()
        self._hasher = ThreadPoolExecutor(1)
        self._packers = ThreadPoolExecutor(threads)
        self._unmade = 2 * threads + 1
        self._idle: list[_Block] = []
        self._in_flight: deque[_InFlight] = deque()
        self._start_block()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._packers.shutdown(cancel_futures=True)
        self._hasher.shutdown(cancel_futures=True)

    def write(self, piece: bytes) -> None:
        """Add a short piece."""
        at = 0
        while at < len(piece):
            space = self.space()
            taken = piece[at : at + len(space)]
            space[: len(taken)] = taken
            self.filled(len(taken))
            at += len(taken)

    def space(self) -> memoryview:
        """Give room for the next bytes, never none; ``filled`` says how many came."""
        if self._used == BLOCK_BYTES:
            self._send()
        return self._block.view[self._used :]

    def filled(self, count: int) -> None:
        """Take the first bytes of the space into the stream."""
        self._used += count
        self.raw_bytes += count

    def finish(self) -> str:
        """Write out all that is left; give the stream's sha256."""
        if self._used:
            self._send()
        while self._in_flight:
            self._land()
        return self._sha256.hexdigest()

    def _start_block(self) -> None:
        if not self._idle and self._unmade:
            self._unmade -= 1
            self._idle.append(_Block())
        elif not self._idle:
            self._land()
        self._block, self._used = self._idle.pop(), 0

    def _send(self) -> None:
        block, length = self._block, self._used
        hashed = self._hasher.submit(self._sha256.update, block.view[:length])
        packed = self._packers.submit(block.frame, length)
        self._in_flight.append(_InFlight(block, hashed, packed))
        self._start_block()

    def _land(self) -> None:
        oldest = self._in_flight.popleft()
        self._out.write(oldest.packed.result())
        oldest.hashed.result()
        self._idle.append(oldest.block)
