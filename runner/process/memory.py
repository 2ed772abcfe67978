"""Hand data to a program's stdin."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, cast


@contextmanager
def readable(data: bytes | IO[bytes] | None) -> Iterator[int | None]:
    """Provide a descriptor from which a program reads the data; None for no data.

    A file is read from where it stands. On Linux other data is on no disk. Unlike a
    pipe it takes any amount at once.
    """
    if data is None:
        yield None
        return
    if not isinstance(data, bytes):
        yield data.fileno()
        return
    with _file() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _file() -> BinaryIO:
    if sys.platform == "linux":
        return open(os.memfd_create("stdin"), "w+b", buffering=0)  # noqa: PTH123 - a descriptor
    return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))
