"""Where a program's bytes and rai's own lines go: raw, or filtered for a terminal."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import TextIO

from runner.core.screen import COLOUR, TerminalFilter
from runner.terminal.streams import discard

MOST_COLOURS = 16
_RESETS = (b"\x1b[m", b"\x1b[0m")


class Sink:
    """A sink for bytes: raw for files and pipes, filtered for terminals and logs."""

    def __init__(self, stream: TextIO, *, filtered: bool = False) -> None:
        self.stream = stream
        self.rewrite: Callable[[bytes], bytes] | None = None
        """What changes all that is written, rai's own lines too."""
        self._raw = getattr(stream, "buffer", None)
        self._filter = TerminalFilter() if filtered or stream.isatty() else None

    def put(self, data: bytes) -> bytes:
        """Write a piece and return what is shown of it; raise OSError if that fails."""
        shown = self._filter.feed(data) if self._filter else data
        self._write(shown)
        return shown

    def write(self, data: bytes) -> tuple[bytes, str | None]:
        """Write a piece; return what is shown, and why that failed.

        Why is "" for a reader that left.
        """
        try:
            return self.put(data), None
        except OSError as error:
            # The reader left, or the disk is full: the run goes on for its record.
            discard(self.stream)
            left = isinstance(error, BrokenPipeError)
            return b"", "" if left else str(error.strerror)

    def own(self, text: str) -> None:
        """Write a text of rai's own as it is, or drop it."""
        try:
            self._write(text.encode(errors="replace"))
        except OSError:
            discard(self.stream)

    def _write(self, data: bytes) -> None:
        if self.rewrite is not None:
            data = self.rewrite(data)
        if self._raw is None:
            self.stream.write(data.decode(errors="replace"))
        else:
            self._raw.write(data)
        self.stream.flush()


class Cursor:
    """Where programs left a terminal's cursor, and in which colours."""

    def __init__(self) -> None:
        self.at_line_start = True
        self._colours: list[bytes] = []

    @property
    def colours(self) -> str:
        """The sequences that bring the programs' colours back."""
        return b"".join(self._colours).decode()

    def after(self, shown: bytes) -> None:
        """Follow what a program wrote."""
        if b"\x1b" in shown:
            found = re.findall(COLOUR, shown)
            last = max((i for i, one in enumerate(found) if one in _RESETS), default=-1)
            kept = [] if last >= 0 else self._colours
            self._colours = (kept + found[last + 1 :])[-MOST_COLOURS:]
            shown = re.sub(rb"(?:" + COLOUR + rb")+\Z", b"", shown)
        if shown:
            self.at_line_start = shown.endswith(b"\n")

    def forget(self) -> None:
        """Begin a line of rai's own: it is at the line's start, without colours."""
        self.at_line_start = True
        self._colours = []


def is_file(stream: TextIO) -> bool:
    """Return whether a stream leads to a file on a disk."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def same_place(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams lead to the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return True
