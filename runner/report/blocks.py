"""The blocks of a report; each kind of output renders them in its own way."""

from __future__ import annotations

from msgspec import Struct


class Pairs(Struct, frozen=True):
    """Named values, one a line."""

    rows: tuple[tuple[str, str], ...]


class Table(Struct, frozen=True):
    """Rows under heads.

    ``right`` are the columns with numbers, ``names`` those with names of functions,
    which a terminal may shorten.
    """

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    names: frozenset[int] = frozenset()


Block = Pairs | Table
