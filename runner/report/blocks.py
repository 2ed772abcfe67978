"""The blocks of a report; each kind of output renders them in its own way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from runner.report.charts import Picture, TimelineView


class Pairs(Struct, frozen=True):
    """Named values, one a line."""

    rows: tuple[tuple[str, str], ...]


class Table(Struct, frozen=True):
    """Rows under heads.

    ``right`` are the columns with numbers, ``names`` those with names of functions,
    which a terminal may shorten, ``asides`` those that go below their rows first where
    there is too little room. ``anchors`` has for each row the section that its cell in
    column ``linked`` leads to on a page, "" for none; it is empty if no row leads
    anywhere.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()
    asides: frozenset[int] = frozenset()
    anchors: tuple[str, ...] = ()
    linked: int = 0


def filled(
    title: str,
    heads: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    right: Iterable[str] = (),
    names: Iterable[str] = (),
    keep: Iterable[str] = (),
) -> Table:
    """Return a table of the columns in which any row has something, or to be kept."""
    numbers, functions, needed = set(right), set(names), set(keep)
    kept = [
        i
        for i, head in enumerate(heads)
        if head in needed or any(row[i] for row in rows)
    ]
    return Table(
        title,
        tuple(heads[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        frozenset(n for n, i in enumerate(kept) if heads[i] in numbers),
        frozenset(n for n, i in enumerate(kept) if heads[i] in functions),
    )


class Paragraph(Struct, frozen=True):
    """Plain text; ``strong`` is said before it, and stands out."""

    text: str
    strong: str = ""


class ProgramOutput(Struct, frozen=True):
    """What a program printed, as plain text; ``left_out`` bytes of it are not here."""

    title: str
    text: str
    left_out: int = 0


Block = Pairs | Table
Part = Block | Paragraph | ProgramOutput | Picture | TimelineView
"""What a page has; a terminal shows blocks only."""


class Section(Struct, frozen=True):
    """A titled part of a page; ``anchor`` is its place within it, in letters and -.

    One that is ``folded`` shows its title only, until the reader unfolds it.
    """

    anchor: str
    title: str
    parts: tuple[Part, ...] = ()
    folded: bool = False
