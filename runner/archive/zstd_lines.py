"""The lines of a compressed file, which may be damaged or hostile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runner.archive.compressed import zstd
from runner.archive.read import open_tar

FREE_BYTES = 256 << 20
MOST_RATIO = 1000
"""A file may have this many times its size, and ``FREE_BYTES``, once decompressed."""


def zstd_lines(path: Path, longest: int) -> Iterator[bytes]:
    """Yield the lines of a file that ``Compressed`` wrote, with their ends.

    Raise ValueError for a file that is damaged, has a line over ``longest`` bytes, or
    becomes much larger than it is; OSError if it cannot be read.
    """
    left = FREE_BYTES + MOST_RATIO * path.stat().st_size
    with open_tar(path) as file:
        while True:
            try:
                line = file.readline(longest)
            except (zstd.ZstdError, EOFError) as error:
                raise ValueError("it cannot be decompressed") from error
            if not line:
                return
            if not line.endswith(b"\n"):
                raise ValueError("it ends early, or has a line that is too long")
            left -= len(line)
            if left < 0:
                raise ValueError("it holds far more than its size")
            yield line
