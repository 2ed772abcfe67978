"""Blocks of a stream, hashed and compressed by threads while the next is filled."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

import zstandard
from msgspec import Struct

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

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
        # Pages of a mapping cost nothing until they are filled.
        self.view = memoryview(mmap.mmap(-1, BLOCK_BYTES))
        self._compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)

    def frame(self, length: int) -> bytes:
        return self._compressor.compress(self.view[:length])


class _InFlight(Struct, frozen=True):
    """A block that is on its way, and what is being made of it."""

    block: _Block
    hashed: Future[None]
    packed: Future[bytes]


class _Workers:
    """The threads; none of their work holds the interpreter's lock."""

    def __init__(self, packers: int) -> None:
        # Loaded here: a stream of one block needs no thread.
        from concurrent.futures import ThreadPoolExecutor

        self.hasher: ThreadPoolExecutor = ThreadPoolExecutor(1)
        self.packers: ThreadPoolExecutor = ThreadPoolExecutor(packers)

    def end(self) -> None:
        self.packers.shutdown(cancel_futures=True)
        self.hasher.shutdown(cancel_futures=True)


class Blocks:
    """Writes a stream as zstd frames; a context manager that ends its threads.

    One thread hashes, the others compress.
    """

    def __init__(self, out: BinaryIO) -> None:
        self.raw_bytes = 0
        self._out = out
        self._sha256 = hashlib.sha256()
        self._threads = min(os.cpu_count() or 1, MOST_THREADS)
        self._workers: _Workers | None = None
        self._unmade = 2 * self._threads + 1
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
        if self._workers:
            self._workers.end()

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
        if self._workers is None:
            last = self._block.view[: self._used]
            self._sha256.update(last)
            self._out.write(self._block.frame(self._used) if last else b"")
        elif self._used:
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
        self._workers = self._workers or _Workers(self._threads)
        block, length = self._block, self._used
        hashed = self._workers.hasher.submit(self._sha256.update, block.view[:length])
        packed = self._workers.packers.submit(block.frame, length)
        self._in_flight.append(_InFlight(block, hashed, packed))
        self._start_block()

    def _land(self) -> None:
        oldest = self._in_flight.popleft()
        self._out.write(oldest.packed.result())
        oldest.hashed.result()
        self._idle.append(oldest.block)
