"""Tables that a script writes into a page, between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def between(text: str, begin: str, end: str, tables: Iterable[str]) -> str:
    """Return a page with the tables between its marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{''.join(tables)}\n{end}{after}"


def row(cells: Sequence[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(text.replace('|', '&#124;') for text in cells)} |\n"


def heading(cells: Sequence[str]) -> str:
    """Return the first two rows of a table."""
    return row(cells) + row(["---"] * len(cells))
