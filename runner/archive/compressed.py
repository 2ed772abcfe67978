"""A stream that is hashed and compressed on its way to a file."""

from __future__ import annotations

import hashlib
import io
import os
from typing import TYPE_CHECKING, BinaryIO

import zstandard

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

JOB_BYTES = 8 << 20
"""What one thread compresses at a time. The output does not depend on the threads."""

MOST_THREADS = 4

# Searches back over a whole job: level 3's size, within 4 %, for 4/5 of its work.
_PARAMETERS = zstandard.ZstdCompressionParameters.from_level(
    2,
    window_log=JOB_BYTES.bit_length() - 1,
    hash_log=17,
    job_size=JOB_BYTES,
    threads=min(os.cpu_count() or 1, MOST_THREADS),
)


class Compressed(io.RawIOBase):
    """Write a stream to ``out`` as zstd; ``close`` ends the archive, not ``out``."""

    def __init__(self, out: BinaryIO) -> None:
        self.raw_bytes = 0
        self._sha256 = hashlib.sha256()
        compressor = zstandard.ZstdCompressor(compression_params=_PARAMETERS)
        self._zstd = compressor.stream_writer(out, closefd=False)

    @property
    def sha256(self) -> str:
        """The checksum of what was written, uncompressed."""
        return self._sha256.hexdigest()

    def writable(self) -> bool:
        """Whether this can be written to: always."""
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        """Compress the next bytes."""
        view = memoryview(data)
        self._sha256.update(view)
        self._zstd.write(view)
        self.raw_bytes += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Write out what is left."""
        if self.closed:
            return
        try:
            self._zstd.close()  # type: ignore[no-untyped-call]
        finally:
            super().close()
