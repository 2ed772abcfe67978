"""The content of data files, as it was when they were verified."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from runner import files
from runner.core import DataFile, Problem
from runner.core.errors import EngineError

BLOCK_BYTES = 1 << 18


def content(file: DataFile) -> Iterator[bytes]:
    """Yield a data file's bytes; EngineError, at the end, where it was changed since.

    A volume that is filled with it is named by its checksum, and kept.
    """
    md5, left = hashlib.md5(usedforsecurity=False), file.size_bytes
    try:
        with files.opened(file.path, file.within) as opened:
            while left and (data := opened.read(min(left, BLOCK_BYTES))):
                md5.update(data)
                left -= len(data)
                yield data
    except OSError as error:
        text = f"{file.path} cannot be read any more: {error.strerror}"
        raise EngineError(text) from error
    if left or md5.hexdigest() != file.md5:
        text = f"{file.path} changed while the run was prepared"
        raise EngineError(Problem(text, hint="run it again"))
