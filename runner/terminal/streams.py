"""Streams whose terminal, file or pipe may go away: what is written, and how.

Words of rai's own are escaped; a program's bytes go raw, or filtered for a terminal.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO

from runner.core import Problem, Severity
from runner.core.screen import COLOUR, TerminalFilter, printable
from runner.terminal import look
from runner.terminal.look import Tone, painted, wrapped


def open_closed() -> None:
    """Open /dev/null for each standard stream that is closed.

    Otherwise the next file to be opened would get its number, and a program's output.
    A closed stdout still cannot be written to, so that a command whose answer is lost
    does not end well.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            access = os.O_RDONLY if name == "stdout" else os.O_RDWR
            null = os.open(os.devnull, access)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def pass_names() -> None:
    """Let stdout take the name of any file, whose bytes need not be UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")


def say(text: str = "", *, to_stderr: bool = False, now: bool = False) -> None:
    """Print words of rai's own, in which what they quote of others is escaped.

    ``now`` shows them before what comes next on the other stream.
    """
    stream = sys.stderr if to_stderr else sys.stdout
    write_line(printable(text), stream)
    if now:
        stream.flush()


def write_line(line: str, stream: TextIO) -> None:
    """Print a line that is safe to show; raise OSError that names the stream."""
    try:
        print(line, file=stream)
    except OSError as error:
        raise unwritten(error, stream) from error


def put(text: str) -> None:
    """Write a document to stdout as it is; raise OSError that names the stream."""
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode(errors="replace"))
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise unwritten(error, sys.stdout) from error


def problems(found: Iterable[Problem]) -> None:
    """Print problems on stderr; on a terminal wrapped, and errors in red.

    They are dropped if stderr cannot be written: the exit status tells of errors.
    """
    able = look.of(sys.stderr)
    for problem in found:
        text = printable(str(problem))
        lines = text.split("\n")
        if able.width:
            lines = wrapped(text, able.width, fold=False)
        if able.colour:
            error = problem.severity is Severity.ERROR
            lines = [painted(line, Tone.BAD if error else Tone.CARE) for line in lines]
        with suppress(OSError):
            write_line("\n  ".join(lines), sys.stderr)


def unwritten(error: OSError, stream: TextIO) -> OSError:
    """Return the error of a stream that cannot be written, with the stream's name."""
    name = "stderr" if stream is sys.stderr else "stdout"
    why = "it is closed" if error.errno == errno.EBADF else error.strerror
    return OSError(error.errno, f"cannot write to {name}: {why}")


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


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
    """Where programs left a terminal's cursor, and whether in a colour."""

    def __init__(self) -> None:
        self.at_line_start = True
        self.coloured = False

    def after(self, shown: bytes) -> None:
        """Follow what a program wrote."""
        if b"\x1b" in shown and (found := re.findall(COLOUR, shown)):
            self.coloured = found[-1] not in _RESETS
            shown = re.sub(rb"(?:" + COLOUR + rb")+\Z", b"", shown)
        if shown:
            self.at_line_start = shown.endswith(b"\n")

    def forget(self) -> None:
        """Begin a line of rai's own: it is at the line's start, without colours."""
        self.at_line_start, self.coloured = True, False


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
