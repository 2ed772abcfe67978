"""The blocks of a report; each kind of output renders them in its own way."""

from __future__ import annotations

from msgspec import Struct

from runner.report.charts import Picture, TimelineView


class Pairs(Struct, frozen=True):
    """Named values, one a line."""

    rows: tuple[tuple[str, str], ...]

    @property
    def padded(self) -> list[tuple[str, str]]:
        """The rows, each name filled up to the width of the longest and a gap."""
        width = max((len(name) for name, _ in self.rows), default=0)
        return [(f"{name:<{width}}  ", value) for name, value in self.rows]


class Table(Struct, frozen=True):
    """Rows under heads.

    ``right`` are the columns with numbers, ``names`` those with names of functions,
    which a terminal may shorten, ``asides`` those that go below their rows first where
    there is too little room. ``anchors`` has for each row the section that its first
    cell leads to on a page, "" for none; it is empty if no row leads anywhere.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()
    asides: frozenset[int] = frozenset()
    anchors: tuple[str, ...] = ()


class Paragraph(Struct, frozen=True):
    """Plain text."""

    text: str


class ProgramOutput(Struct, frozen=True):
    """What a program printed, as plain text; ``left_out`` bytes of it are not here."""

    title: str
    text: str
    left_out: int = 0


Block = Pairs | Table
Part = Block | Paragraph | ProgramOutput | Picture | TimelineView
"""What a page has; a terminal shows blocks only."""


class Section(Struct, frozen=True):
    """A titled part of a page; ``anchor`` is its place within it, in letters and -."""

    anchor: str
    title: str
    parts: tuple[Part, ...] = ()
    sections: tuple[Section, ...] = ()
