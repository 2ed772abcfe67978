"""Turn bytes into clean lines: what a terminal shows in the end.

Colours and titles are dropped, carriage returns and backspaces overwrite, erasures
erase. So a progress bar leaves its last state and a spinner leaves nothing. Memory is
bounded: a line is cut at LINE_LIMIT characters. Time is linear in the bytes, whatever
they are.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

LINE_LIMIT = 32 * 1024
"""The number of characters of a line that are read; the rest is dropped."""

# A sequence never crosses a line end; one that is longer than any real one is text.
_CONTROL = re.compile(
    r"\x1b\[(?P<args>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)"  # OSC and other strings
    r"|\x1b[ -/]{0,8}[0-~]"  # short escapes
    r"|[\x00-\x08\x0a-\x1f\x7f]"
)
_UNFINISHED = re.compile(
    r"\x1b(?:[ -/]{0,8}|\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b]{0,4096}\x1b?)\Z"
)
_LONGEST = 4100
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,64}m")
_ANY_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_IGNORED = bytes([*range(7), 0x0B, 0x0C, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F])
_PLAIN = bytes([*b"\t\n", *range(0x20, 0x7F), *range(0x80, 0x100)])
_RETURNS = re.compile("\r{2,}")
_WIDEST = 1024
"""The column up to which a control moves the cursor to the right of where it is."""


class _Row:
    """One line of a terminal, written in any number of pieces."""

    def __init__(self) -> None:
        self._text = ""
        self._spread: list[str] | None = None
        self.column = 0
        self.pending = ""
        self._blank = 0
        """How many of the first cells are blank, so that they are erased only once."""

    @property
    def full(self) -> bool:
        """Whether plain text adds nothing to it."""
        return self.column >= LINE_LIMIT and not self.pending

    def write(self, piece: str) -> None:
        """Write a piece; keep an escape sequence that is cut for the next piece."""
        piece = self.pending + piece
        start = max(0, len(piece) - _LONGEST)
        cut = _UNFINISHED.search(piece, start)
        self.pending = piece[cut.start() :] if cut else ""
        self._apply(piece[: cut.start()] if cut else piece)

    def finish(self) -> str:
        """Return the line as it is now."""
        self._apply(self.pending)
        return self._text if self._spread is None else "".join(self._spread)

    def _apply(self, piece: str) -> None:
        if "\x1b" not in piece and "\b" not in piece:
            self._write_over(piece.replace("\x07", ""))
            return
        end = 0
        for match in _CONTROL.finditer(piece):
            self._put(piece[end : match.start()])
            end = match.end()
            if match["final"]:
                self._move(match["final"], match["args"])
            elif match[0] == "\r":
                self.column = 0
            elif match[0] == "\b":
                self.column = max(0, self.column - 1)
        self._put(piece[end:] if end else piece)

    def _write_over(self, piece: str) -> None:
        """Write a piece whose only controls are carriage returns."""
        first, *rest = _RETURNS.sub("\r", piece).split("\r")
        self._put(first)
        if rest:
            self.column = 0
            self._put(_overlaid(rest))
            self.column = len(rest[-1])

    @property
    def cells(self) -> list[str]:
        """Its characters, which can be written over; most lines never are."""
        if self._spread is None:
            self._spread = list(self._text)
        return self._spread

    def _put(self, text: str) -> None:
        shown = text[: max(0, LINE_LIMIT - self.column)]
        if self._spread is None and self.column == len(self._text):
            self._text += shown
        elif shown:
            self._blank = min(self._blank, self.column)
            cells = self.cells
            cells += " " * (self.column - len(cells))
            cells[self.column : self.column + len(shown)] = shown
        self.column += len(text)

    def _move(self, final: str, args: str) -> None:
        count = int(args) if args.isdigit() else 0
        if final == "K":
            self._erase(count)
        elif final == "G":
            self.column = min(max(count, 1) - 1, max(self.column, _WIDEST))
        elif final == "C":
            right = self.column + max(count, 1)
            self.column = min(right, max(self.column, _WIDEST))
        elif final == "D":
            self.column = max(0, self.column - max(count, 1))

    def _erase(self, mode: int) -> None:
        if mode == 0:
            del self.cells[self.column :]
        elif mode == 1:
            blank = min(self.column + 1, len(self.cells))
            if blank > self._blank:
                self.cells[self._blank : blank] = " " * (blank - self._blank)
                self._blank = blank
        elif mode == 2:
            self.cells.clear()
        self._blank = min(self._blank, len(self.cells))


class LineReader:
    """A reader of output in pieces; a line may come in many of them."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._row = _Row()

    def feed(self, data: bytes) -> list[str]:
        """Read a piece and return the lines that it completes."""
        odd = data.translate(None, _PLAIN)
        if odd:
            data = data.translate(None, _IGNORED)
        elif self._row.full and b"\n" not in data:
            self._row.column += len(data)
            return []
        first, *rest = self._decoder.decode(data).split("\n")
        self._row.write(first)
        if not rest:
            return []
        complete = [self._row.finish()]
        if odd:
            complete.extend(map(_clean, rest[:-1]))
        else:
            complete.extend([line[:LINE_LIMIT] for line in rest[:-1]])
        self._row = _Row()
        self._row.write(rest[-1])
        return complete

    def finish(self) -> list[str]:
        """Return the last line, if it has no line end."""
        self._row.write(self._decoder.decode(b"", final=True))
        last, self._row = self._row.finish(), _Row()
        return [last] if last else []


def lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the clean lines of an output that comes in chunks."""
    reader = LineReader()
    for chunk in chunks:
        yield from reader.feed(chunk)
    yield from reader.finish()


def _overlaid(pieces: list[str]) -> str:
    """Return what pieces leave that are written over each other."""
    top = ""
    for piece in reversed(pieces):
        if len(piece) > len(top):
            top += piece[len(top) :]
    return top


def _clean(line: str) -> str:
    line = line.rstrip("\r")
    plain = _COLOUR.sub("", line) if "\x1b" in line else line
    if _ANY_CONTROL.search(plain) is None:
        return plain[:LINE_LIMIT]
    row = _Row()
    row.write(line)
    return row.finish()
