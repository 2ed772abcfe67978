"""The blocks of a report; each kind of output renders them in its own way."""

from __future__ import annotations

from msgspec import Struct


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
    there is too little room.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()
    asides: frozenset[int] = frozenset()


Block = Pairs | Table
