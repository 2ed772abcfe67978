"""Zstandard: a stream that is hashed and compressed on its way to a file.

Other modules of the archive take ``zstd`` from here.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from typing import TYPE_CHECKING, BinaryIO

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

JOB_BYTES = 8 << 20
"""What one thread compresses at a time. The output does not depend on the threads."""

MOST_THREADS = 4

# Searches back over a whole job: level 3's size, within 4 %, for 4/5 of its work.
_OPTIONS: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 2,
    zstd.CompressionParameter.window_log: JOB_BYTES.bit_length() - 1,
    zstd.CompressionParameter.hash_log: 17,
    zstd.CompressionParameter.job_size: JOB_BYTES,
    zstd.CompressionParameter.nb_workers: min(os.cpu_count() or 1, MOST_THREADS),
}


class Compressed(io.RawIOBase):
    """Write a stream to ``out`` as zstd; ``close`` ends the archive, not ``out``."""

    def __init__(self, out: BinaryIO) -> None:
        self.raw_bytes = 0
        self._sha256 = hashlib.sha256()
        self._out = out
        self._zstd = zstd.ZstdCompressor(options=_OPTIONS)

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
        self._out.write(self._zstd.compress(view))
        self.raw_bytes += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Write out what is left."""
        if self.closed:
            return
        try:
            self._out.write(self._zstd.flush())
        finally:
            super().close()
