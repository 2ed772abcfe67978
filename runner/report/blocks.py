"""The blocks of a report, and its pictures as data, for each display to render."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct


class Mark(Struct, frozen=True):
    """A value to compare a bar with; marks with one label look alike."""

    label: str
    value: float


class Bar(Struct, frozen=True):
    """One bar, and how far its samples spread, if there were several.

    Bars with one ``series`` have one colour.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    series: str = ""
    marks: tuple[Mark, ...] = ()


class BarChart(Struct, frozen=True):
    """Bars from above to below; ``unit`` is "s", "%" or another word for the values."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    logarithmic: bool = False


class Roof(Struct, frozen=True):
    """A bound of a GPU: ``flops`` a second, or ``bandwidth`` in bytes a second."""

    label: str
    flops: float | None = None
    bandwidth: float | None = None


class RoofPoint(Struct, frozen=True):
    """A kernel: operations per byte, and operations a second."""

    label: str
    intensity: float
    flops: float
    series: str = ""


class Roofline(Struct, frozen=True):
    """Kernels below the bounds of their GPU, on two logarithmic axes."""

    title: str
    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]


Chart = BarChart | Roofline


class Picture(Struct, frozen=True):
    """A chart in a report; ``name`` is unique in it, ``text`` says what it shows."""

    name: str
    text: str
    chart: Chart


class TimelineView(Struct, frozen=True):
    """The place in a report for the timeline of a file that a profiler wrote."""

    path: str
    title: str


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
