"""A table as the cells of a page."""

from __future__ import annotations

from msgspec import Struct

from runner.pages.anchors import Anchors
from runner.report.blocks import Table
from runner.report.names import shortened
from runner.report.signs import sign

MOST_ROWS = 1000
LONGEST_CELL = 1000
LONGEST_NAME = 8000
LONG_TEXT = 32
"""A column with a longer text stays wide enough to read it."""

SHORT_NAME = 48
"""Characters of a function's name that are shown at once."""


class TableCell(Struct, frozen=True):
    """One cell: ``short`` stands for a long ``text`` until the reader asks for it."""

    text: str
    short: str = ""
    kind: str = ""
    sign: str = ""
    link: str = ""


class TableView(Struct, frozen=True):
    """A table's heads with their kinds, its rows, and how many are left out.

    The cell in column ``lead`` names its row. A table whose rows continue the one above
    has to stay in its order.
    """

    title: str
    heads: tuple[TableCell, ...]
    rows: list[list[TableCell]]
    lead: int
    left_out: int
    sortable: bool


def view(table: Table, anchors: Anchors) -> TableView:
    """Return a table as it is shown.

    Names of functions stand before their figures, and columns without anything are
    left out.
    """
    lead = _lead(table)
    every = range(len(table.heads))
    kinds = [_kind(table, i) for i in every]
    order = [i for i in every if i == lead or any(row[i] for row in table.rows)]
    if lead in table.names:
        others = [i for i in order if i != lead]
        figures = (at for at, i in enumerate(others) if i in table.right and i < lead)
        place = next(figures, order.index(lead))
        order = [*others[:place], lead, *others[place:]]
    links = [link if link in anchors else "" for link in table.anchors]
    links += [""] * (len(table.rows) - len(links))
    shown = list(zip(table.rows, links, strict=True))[:MOST_ROWS]
    return TableView(
        title=table.title,
        heads=tuple(TableCell(table.heads[i], kind=kinds[i]) for i in order),
        rows=[
            [
                _cell(table.heads[i], row[i], kinds[i], link if i == 0 else "")
                for i in order
            ]
            for row, link in shown
        ],
        lead=order.index(lead),
        left_out=len(table.rows) - len(shown),
        sortable=len(shown) > 2 and all(row[lead] for row, _ in shown),
    )


def _lead(table: Table) -> int:
    """Return the column that names the rows: a function's, else the first of text."""
    texts = [i for i, _ in enumerate(table.heads) if i not in table.right]
    return min(table.names, default=next(iter(texts), 0))


def _cell(head: str, text: str, kind: str, link: str) -> TableCell:
    short = ""
    if kind == "function":
        text = _cut(text, LONGEST_NAME)
        short = shortened(text, SHORT_NAME)
    else:
        text = _cut(text, LONGEST_CELL)
    return TableCell(
        text,
        short="" if short == text else short,
        kind=kind,
        sign=sign(head, text),
        link=link,
    )


def _kind(table: Table, column: int) -> str:
    if column in table.right:
        return "number"
    if column in table.names:
        return "function"
    longest = max((len(row[column]) for row in table.rows[:MOST_ROWS]), default=0)
    return "long" if longest > LONG_TEXT else "short"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
