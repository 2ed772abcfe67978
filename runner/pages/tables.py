"""A table as the cells of a page."""

from __future__ import annotations

from collections.abc import Container
from itertools import zip_longest

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


def view(table: Table, anchors: Container[str]) -> dict[str, object]:
    """Return what a table's template shows: no columns that have nothing.

    The cell in column ``lead`` names its row. ``anchors`` are the places that links can
    lead to.
    """
    columns = range(len(table.heads))
    lead = min(table.names or set(columns) - table.right, default=0)
    order = [i for i in columns if i == lead or any(row[i] for row in table.rows)]
    kinds = [_kind(table, i) for i in columns]
    links = [link if link in anchors else "" for link in table.anchors]
    shown = zip_longest(table.rows[:MOST_ROWS], links[:MOST_ROWS], fillvalue="")
    return {
        "title": table.title,
        "heads": [TableCell(table.heads[i], kind=kinds[i]) for i in order],
        "rows": [
            [
                _cell(table.heads[i], row[i], kinds[i], link * (i == table.linked))
                for i in order
            ]
            for row, link in shown
        ],
        "lead": order.index(lead),
        "left_out": max(len(table.rows) - MOST_ROWS, 0),
    }


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
