"""Lay out the blocks of reports as lines, within a width or as wide as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from runner.core.screen import printable
from runner.report import phrases
from runner.report.blocks import Block, Pairs, Table
from runner.report.phrases import sign
from runner.terminal import streams
from runner.terminal.streams import Look, Tone, cells, painted, wrapped, write_line

GAP = 2
LEAST_VALUE = 24
"""A value narrower than this goes below its name."""


def blocks(shown: Iterable[Block], *, to_stderr: bool = False) -> None:
    """Print a report's blocks on stdout or stderr."""
    out = sys.stderr if to_stderr else sys.stdout
    able = streams.of(out)
    for number, block in enumerate(shown):
        if number:
            write_line("", out)
        for line in lines(block, able):
            write_line(line, out)


def lines(block: Block, look: Look) -> list[str]:
    """Return the lines of a block; nothing is shortened but names of functions."""
    if isinstance(block, Pairs):
        return list(_pairs(block, look))
    if look.width is not None:
        block = phrases.fitted(block, look.width)
    title = [_text(block.title, Tone.HEAD, look)] if block.title else []
    return [*title, *rows(block, look, heads=True)]


def rows(table: Table, look: Look, *, heads: bool = False) -> list[str]:
    """Return the lines of a table's rows, without its heads unless they are wanted."""
    grid = _Grid(table, look, heads)
    above = [grid.line([table.heads[i] for i in grid.beside])] if heads else []
    return [*above, *(line for row in table.rows for line in grid.row(row))]


def tone(head: str, value: str) -> Tone:
    """Return how a value below a head is painted."""
    found = sign(head, value)
    return Tone[found.name] if found else Tone.PLAIN


def _pairs(block: Pairs, look: Look) -> Iterator[str]:
    names = [printable(name) for name, _ in block.rows]
    indent = max(map(cells, names), default=0) + GAP
    if below := look.width is not None and look.width - indent < LEAST_VALUE:
        indent = GAP
    for name, (_, value) in zip(names, block.rows, strict=True):
        if below and name:
            yield _text(name, Tone.HEAD, look)
        room = None if look.width is None else look.width - indent
        for number, text in enumerate(_wrapped(value, room)):
            head = "" if below or number else name
            pad = " " * (indent - cells(head))
            shown = _text(text, tone(name, value), look)
            yield f"{_text(head, Tone.HEAD, look)}{pad}{shown}".rstrip()


class _Grid:
    """A table's columns: those beside each other with their widths, those below."""

    def __init__(self, table: Table, look: Look, heads: bool) -> None:
        self._table, self._look = table, look
        every = [*([table.heads] if heads else []), *table.rows]
        columns = [list(map(printable, column)) for column in zip(*every, strict=True)]
        self._widths = [max(map(cells, column)) for column in columns]
        self.beside, self._below = list(range(len(columns))), list[int]()
        if look.width is not None and self._total() > look.width:
            filled = [i for i in self.beside if any(row[i] for row in table.rows)]
            kept = [i for i in filled if i not in table.asides]
            self.beside = kept or filled or self.beside
            self._below = [i for i in filled if i not in self.beside]
            self._fit(look.width, [max(map(_longest_word, each)) for each in columns])

    def _fit(self, width: int, least: list[int]) -> None:
        """Narrow the widest columns, or put them below their rows, until all fits."""
        while self._total() > width:
            wide = [i for i in self.beside if i not in self._table.right]
            room = width - self._total() + sum(self._widths[i] for i in wide)
            able = [i for i in wide if self._widths[i] > least[i]]
            if wide and sum(least[i] for i in wide) > room and self.beside[1:]:
                widest = max(wide, key=lambda i: (least[i], i))
                self.beside.remove(widest)
                self._below = sorted([*self._below, widest])
            elif able:
                self._widths[max(able, key=lambda i: self._widths[i])] -= 1
            else:
                return

    def _total(self) -> int:
        return sum(self._widths[i] + GAP for i in self.beside) - GAP

    def row(self, row: Sequence[str]) -> Iterator[str]:
        """Yield the lines of a row."""
        heads, look = self._table.heads, self._look
        texts = [_wrapped(row[i], self._widths[i]) for i in self.beside]
        for parts in zip_longest(*texts, fillvalue=""):
            yield self.line(parts, row)
        indent = min(self._widths[self.beside[0]], 4) + GAP
        room = None if look.width is None else look.width - indent
        for i in self._below:
            label = f"{heads[i]}: " if len(self._below) > 1 else ""
            for part in _wrapped(f"{label}{row[i]}", room) if row[i] else ():
                yield " " * indent + _text(part, tone(heads[i], row[i]), look)

    def line(self, texts: Sequence[str], row: Sequence[str] = ()) -> str:
        """Return a line of a row, or of the heads."""
        found = []
        for i, text in zip(self.beside, texts, strict=True):
            pad = " " * (self._widths[i] - cells(text))
            painting = tone(self._table.heads[i], row[i]) if row else Tone.HEAD
            shown = _text(text, painting, self._look)
            found.append(pad + shown if i in self._table.right else shown + pad)
        return (" " * GAP).join(found).rstrip()


def _text(text: str, tone: Tone, look: Look) -> str:
    shown = printable(text)
    return painted(shown, tone) if look.colour else shown


def _wrapped(text: str, width: int | None) -> list[str]:
    text = printable(text)
    return text.split("\n") if width is None else wrapped(text, max(width, 1))


def _longest_word(text: str) -> int:
    return max(map(cells, text.split()), default=0)
