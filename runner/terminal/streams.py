"""Streams that may go away: what each can show, and what is written to it, and how."""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from typing import TextIO

from msgspec import Struct

from runner.core import Problem, Severity
from runner.core.screen import COLOUR, TerminalFilter, printable

USUAL_WIDTH = 80
NARROWEST = 20


class Look(Struct, frozen=True):
    """What a stream can show; ``width`` is None where lines are never wrapped.

    ``live`` tells whether a line may be drawn again in its place.
    """

    colour: bool = False
    width: int | None = None
    live: bool = False


PLAIN = Look()


def of(stream: TextIO) -> Look:
    """Return what a stream can show now; a terminal's width may change."""
    terminal = stream.isatty()
    return look(os.environ, _width(stream) if terminal else None)


def look(environ: Mapping[str, str], width: int | None) -> Look:
    """Return what a stream can show; ``width`` is None unless it is a terminal. Pure.

    NO_COLOR goes before FORCE_COLOR. A terminal that CI offers is a log in truth.
    """
    able = width is not None and environ.get("TERM", "") not in ("", "dumb")
    force = environ.get("FORCE_COLOR", "")
    colour = able if not force else force not in ("0", "false")
    if environ.get("NO_COLOR"):
        colour = False
    ci = environ.get("CI", "").lower() not in ("", "0", "false")
    if width is not None:
        width = max(NARROWEST, width)
    return Look(colour, width, able and not ci)


def _width(stream: TextIO) -> int:
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


class Tone(StrEnum):
    """How a text is painted, as the numbers of a terminal's own sequence.

    Only colours that can be read on light and on dark backgrounds; a yellow text
    cannot.
    """

    PLAIN = ""
    GOOD = "32"
    BAD = "1;31"
    CARE = "35"
    HEAD = "1"
    FAINT = "2"


RESET = "\x1b[0m"

_PIECE = re.compile(r"\s*\S+")
_BREAK = re.compile(r"[/,;:=._&?-](?=.)")


def painted(text: str, tone: str) -> str:
    """Return a text in a tone, or in the numbers of a terminal's colours."""
    return f"\x1b[{tone}m{text}{RESET}" if tone and text else text


def cells(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


@cache
def _cells(sign: str) -> int:
    """Return 2 for a wide sign, 0 for one that joins the sign before it."""
    import unicodedata

    if unicodedata.category(sign) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def cut(text: str, width: int) -> str:
    """Return a text in one line, cut with an ellipsis if it is too wide."""
    text = " ".join(text.split())
    return text if cells(text) <= width else _head(text, width - 1) + "…"


def wrapped(text: str, width: int, *, fold: bool = True) -> list[str]:
    """Return the lines of a text, wrapped between words.

    A longer word is broken where that can be read if ``fold``, else left whole, so
    that it can be copied from a terminal that wraps it.
    """
    lines = []
    for part in text.expandtabs().split("\n"):
        line = ""
        for piece in _PIECE.findall(part):
            if line and cells(line) + cells(piece) > width:
                lines.append(line)
                line = piece.lstrip()
            else:
                line += piece
            while fold and len(line) > 1 and cells(line) > width:
                head = _broken(line, width)
                lines.append(head)
                line = line[len(head) :]
        lines.append(line)
    return lines


def _broken(line: str, width: int) -> str:
    """Return the beginning of a word that fits, up to a separator if there is one."""
    head = _head(line, width)
    ends = [found.end() for found in _BREAK.finditer(head)]
    return head[: ends[-1]] if ends and ends[-1] > width // 3 else head


def _head(text: str, width: int) -> str:
    """Return the longest beginning of a text that fits, one character at least."""
    end = min(len(text), width)
    while end > 1 and cells(text[:end]) > width:
        end -= 1
    return text[: max(end, 1)]


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
    able = of(sys.stderr)
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
