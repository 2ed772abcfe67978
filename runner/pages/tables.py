"""A table as the cells of a page."""

from __future__ import annotations

from collections.abc import Container

from msgspec import Struct

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

    The cell in column ``lead`` names its row.
    """

    title: str
    heads: tuple[TableCell, ...]
    rows: list[list[TableCell]]
    lead: int
    left_out: int


def view(table: Table, anchors: Container[str]) -> TableView:
    """Return a table as it is shown, without columns that have nothing.

    ``anchors`` are the places that its links can lead to.
    """
    texts = [i for i, _ in enumerate(table.heads) if i not in table.right]
    lead = min(table.names, default=next(iter(texts), 0))
    order = [
        i
        for i, _ in enumerate(table.heads)
        if i == lead or any(row[i] for row in table.rows)
    ]
    kinds = [_kind(table, i) for i, _ in enumerate(table.heads)]
    links = [link if link in anchors else "" for link in table.anchors]
    links += [""] * (len(table.rows) - len(links))
    shown = list(zip(table.rows, links, strict=True))[:MOST_ROWS]
    return TableView(
        title=table.title,
        heads=tuple(TableCell(table.heads[i], kind=kinds[i]) for i in order),
        rows=[
            [
                _cell(table.heads[i], row[i], kinds[i], link * (i == table.linked))
                for i in order
            ]
            for row, link in shown
        ],
        lead=order.index(lead),
        left_out=len(table.rows) - len(shown),
    )


def _cell(head: str, text: str, kind: str, link: str) -> TableCell:
    function = kind == "function"
    text = _cut(text, LONGEST_NAME if function else LONGEST_CELL)
    short = shortened(text, SHORT_NAME) if function else text
    return TableCell(text, "" if short == text else short, kind, sign(head, text), link)


def _kind(table: Table, column: int) -> str:
    if column in table.right:
        return "number"
    if column in table.names:
        return "function"
    longest = max((len(row[column]) for row in table.rows[:MOST_ROWS]), default=0)
    return "long" if longest > LONG_TEXT else "short"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
