"""Lay out the blocks of reports as lines, within a width or as wide as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec import Struct

from runner import report
from runner.core.screen import printable
from runner.report.signs import Sign, sign
from runner.terminal import look
from runner.terminal.look import Tone, cells, painted, wrapped
from runner.terminal.streams import write_line

_TONES = {
    Sign.NONE: Tone.PLAIN,
    Sign.GOOD: Tone.GOOD,
    Sign.BAD: Tone.BAD,
    Sign.CARE: Tone.CARE,
    Sign.FAINT: Tone.FAINT,
}


def tone(head: str, value: str) -> Tone:
    """Return how a value below a head is painted."""
    return _TONES[sign(head, value)]


GAP = 2
LEAST_VALUE = 24
"""A value narrower than this goes below its name."""


class Span(Struct, frozen=True):
    """A piece of a line, and how it is painted."""

    text: str
    tone: str = ""


Line = list[Span]


def blocks(shown: Iterable[report.Block], *, to_stderr: bool = False) -> None:
    """Print a report's blocks on stdout or stderr."""
    out = sys.stderr if to_stderr else sys.stdout
    able = look.of(out)
    for number, block in enumerate(shown):
        if number:
            write_line("", out)
        for line in lines(block, able.width):
            write_line(written(line, colour=able.colour), out)


def written(line: Line, *, colour: bool) -> str:
    """Return a line as text."""
    return "".join(painted(s.text, s.tone) if colour else s.text for s in line).rstrip()


def lines(block: report.Block, width: int | None) -> list[Line]:
    """Return the lines of a block; nothing is shortened but names of functions."""
    if isinstance(block, report.Pairs):
        return _pairs(block, width)
    if width is not None:
        block = report.fitted(block, width)
    title = [[Span(printable(block.title), Tone.HEAD)]] if block.title else []
    return [*title, *_Grid(block, width).lines()]


def rows(table: report.Table, width: int | None) -> list[Line]:
    """Return the lines of a table's rows, without its heads."""
    return _Grid(table, width, heads=False).lines()


def _pairs(block: report.Pairs, width: int | None) -> list[Line]:
    rows = [(printable(name), value) for name, value in block.rows]
    indent = max((cells(name) for name, _ in rows), default=0) + GAP
    below = width is not None and width - indent < LEAST_VALUE
    found: list[Line] = []
    for name, value in rows:
        painting = tone(name, value)
        taken = GAP if below else indent
        texts = _wrapped(value, None if width is None else width - taken)
        heads = [name]
        if below and name:
            found.append([Span(name, Tone.HEAD)])
            heads = []
        for head, text in zip_longest(heads, texts, fillvalue=""):
            pad = taken - cells(head)
            found.append([Span(head, Tone.HEAD), Span(" " * pad), Span(text, painting)])
    return found


class _Grid:
    """A table, its columns' widths, and the columns that go below their rows."""

    def __init__(
        self, table: report.Table, width: int | None, *, heads: bool = True
    ) -> None:
        self._heads, self._right, self._width = table.heads, table.right, width
        self._rows = [[printable(cell) for cell in row] for row in table.rows]
        above = [self._heads] if heads else []
        self._above = heads
        columns = [list(column) for column in zip(*above, *self._rows, strict=True)]
        filled = [i for i, _ in enumerate(self._heads) if any(r[i] for r in self._rows)]
        self._widths = [max(map(cells, column)) for column in columns]
        self._beside = list(range(len(columns)))
        self._below: list[int] = []
        if width is not None and self._total() > width:
            asides = table.asides.intersection(filled)
            self._beside = [i for i in filled if i not in asides] or self._beside
            self._below = sorted(asides.difference(self._beside))
            least = [max(map(_longest_word, column)) for column in columns]
            self._fit(width, least)

    def lines(self) -> list[Line]:
        """Return the lines: the heads, then each row."""
        found = []
        if self._above:
            found = [self._line([self._heads[i] for i in self._beside], head=True)]
        for row in self._rows:
            found += self._row(row)
        return found

    def _fit(self, width: int, least: list[int]) -> None:
        """Narrow the widest columns, or put them below their rows, until all fits."""
        while self._total() > width:
            wide = [i for i in self._beside if i not in self._right]
            room = width - self._total() + sum(self._widths[i] for i in wide)
            if wide and sum(least[i] for i in wide) > room and self._beside[1:]:
                widest = max(wide, key=lambda i: (least[i], i))
                self._beside.remove(widest)
                self._below = sorted([*self._below, widest])
                continue
            able = [i for i in wide if self._widths[i] > least[i]]
            if not able:
                return
            self._widths[max(able, key=lambda i: self._widths[i])] -= 1

    def _total(self) -> int:
        widths = [self._widths[i] for i in self._beside]
        return sum(widths) + GAP * (len(widths) - 1)

    def _row(self, row: Sequence[str]) -> Iterable[Line]:
        texts = [_wrapped(row[i], self._widths[i]) for i in self._beside]
        for parts in zip_longest(*texts, fillvalue=""):
            yield self._line(parts, row)
        first = self._beside[0]
        indent = min(self._widths[first], 4) + GAP
        for i in self._below:
            label = f"{self._heads[i]}: " if len(self._below) > 1 else ""
            text = f"{label}{row[i]}" if row[i] else ""
            room = None if self._width is None else self._width - indent
            for part in _wrapped(text, room) if text else ():
                yield [Span(" " * indent), Span(part, tone(self._heads[i], row[i]))]

    def _line(
        self, texts: Sequence[str], row: Sequence[str] = (), *, head: bool = False
    ) -> Line:
        found: Line = []
        for i, text in zip(self._beside, texts, strict=True):
            pad = Span(" " * (self._widths[i] - cells(text)))
            shown = Span(text, Tone.HEAD if head else tone(self._heads[i], row[i]))
            found += [pad, shown] if i in self._right else [shown, pad]
            found.append(Span(" " * GAP))
        return found


def _wrapped(text: str, width: int | None) -> list[str]:
    text = printable(text)
    return text.split("\n") if width is None else wrapped(text, max(width, 1))


def _longest_word(text: str) -> int:
    return max(map(cells, text.split()), default=0)
