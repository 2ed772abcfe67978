"""Read data files and check that they are still those that were verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from runner import files
from runner.core import DataFile, Problem
from runner.core.errors import EngineError

BLOCK_BYTES = 1 << 18


def content(file: DataFile) -> Iterator[bytes]:
    """Yield a data file's bytes.

    Raises:
        EngineError: the file changed since it was verified; raised after the last
            byte, so the caller must discard what it has written.
    """
    md5, left = hashlib.md5(usedforsecurity=False), file.size_bytes
    try:
        with files.opened(file.path, file.within) as opened:
            while left and (data := opened.read(min(left, BLOCK_BYTES))):
                md5.update(data)
                left -= len(data)
                yield data
    except OSError as error:
        text = f"{file.path} cannot be read: {error.strerror}"
        raise EngineError(text) from error
    if left or md5.hexdigest() != file.md5:
        text = f"{file.path} changed while the run was being prepared"
        raise EngineError(Problem(text, hint="run it again"))
