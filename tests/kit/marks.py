"""Tables that a script writes into a page, between two marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations


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


def ends(found: Mapping[str, str]) -> str:
    """Return how a case ended in each column, and where, unless it is the same in all.

    Columns that ended alike are named by the fewest words that only they have.
    """
    columns: dict[str, set[str]] = {}
    for column, end in found.items():
        columns.setdefault(end, set()).add(column)
    if len(columns) == 1:
        return next(iter(columns))
    rest = max(columns, key=lambda end: len(columns[end]))
    named = {end: _shared(columns[end], found) for end in columns}
    if not named[rest]:
        named = {rest: "", **named}
    return "; ".join(
        f"{end} ({name or ', '.join(sorted(columns[end]))})"
        if name or end != rest
        else end
        for end, name in named.items()
    )


def _shared(columns: set[str], every: Iterable[str]) -> str:
    """Return the fewest words that these columns have and no other; empty if none."""
    words = dict.fromkeys(min(columns).split())
    for count in range(1, len(words) + 1):
        for some in combinations(words, count):
            if {one for one in every if set(some) <= set(one.split())} == columns:
                return " ".join(some)
    return ""
