"""Read a gzip file as far as it goes; the standard library's loses what it has."""

from __future__ import annotations

import zlib
from io import BufferedReader

_PACKED_BYTES = 1 << 16
_GZIP = 31  # zlib's number for a gzip header and the greatest window


class Inflated:
    """What a gzip file decompresses to."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self._member = zlib.decompressobj(_GZIP)
        self._packed = b""

    def read(self, most: int) -> bytes:
        """Return up to ``most`` bytes, b"" at the end.

        Raise EOFError if the file ends early, zlib.error if it is damaged.
        """
        while True:
            if not self._packed:
                self._packed = self._file.read(_PACKED_BYTES)
            if self._member.eof:
                if not self._packed.strip(b"\0"):
                    return b""
                self._member = zlib.decompressobj(_GZIP)
            at_end = not self._packed
            data = self._member.decompress(self._packed, most)
            self._packed = self._member.unconsumed_tail or self._member.unused_data
            if data:
                return data
            if at_end and not self._member.eof:
                raise EOFError("it ends early")
