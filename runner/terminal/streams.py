"""Write to streams whose terminal, file or pipe may go away."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def open_closed() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise the next file to be opened would get its number, and a program's output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


class BestEffort(io.TextIOBase):
    """A text stream that drops text once it cannot be written.

    So a run goes on, or ends cleanly, after its terminal was closed.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The stream's encoding."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        try:
            return self._stream.write(text)
        except OSError:
            discard(self._stream)
            return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        try:
            self._stream.flush()
        except OSError:
            discard(self._stream)
