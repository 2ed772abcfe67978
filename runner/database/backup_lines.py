"""The form of a backup: lines of JSON, the same for every database.

The first line is a ``BackupHead``. Each further line is a row: the name of its table,
then its values in the order of the head's columns, bytes as Base64. The last line is a
``BackupEnd``. Tables follow those that they refer to.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Table, types

from runner.core.units import MIB

FORMAT = "rai store 1"
LONGEST_LINE = 64 * MIB
"""A row has at most a parcel and secrets of 4 MiB, and JSON makes six of a byte."""

NUMBERED = {"audit": "id"}
"""Columns that a database numbers by itself; rows are written in their order."""

_MOST = 1 << 63

Value = str | int | float | bool | None
Stored = Value | bytes


class BackupHead(Struct, frozen=True):
    """What a backup is of: the schema, and of each table the columns and their kinds.

    A kind is text, int, float, bool or bytes.
    """

    format: str
    revision: str
    tables: dict[str, dict[str, str]]


class BackupEnd(Struct, frozen=True):
    """How many rows each table has, and the SHA-256 of all lines before this one."""

    rows: dict[str, int]
    sha256: str


class BackupFacts(Struct, frozen=True):
    """What a backup holds: the revision of its schema, and rows by their tables."""

    revision: str
    rows: dict[str, int]


_KINDS: tuple[tuple[type[types.TypeEngine[Any]], str], ...] = (
    (types.LargeBinary, "bytes"),
    (types.Boolean, "bool"),
    (types.Integer, "int"),
    (types.Float, "float"),
    (types.String, "text"),
)
"""Kinds by the types that a database tells of its columns."""


def columns(table: Table) -> dict[str, str]:
    """Return the columns of a table that are kept, with their kinds."""
    return {
        str(column.name): next(
            kind for cls, kind in _KINDS if isinstance(column.type, cls)
        )
        for column in table.columns
        if column.name != NUMBERED.get(table.name)
    }


def line(value: object) -> bytes:
    """Return a value as a line."""
    return msgspec.json.encode(value) + b"\n"


def head(data: bytes) -> BackupHead:
    """Read the first line; raise ValueError if it is none."""
    found = msgspec.json.decode(data, type=BackupHead)
    if found.format != FORMAT:
        raise ValueError("it is no backup of a store, or of a later rai")
    return found


def end(data: bytes) -> BackupEnd:
    """Read the last line; raise ValueError if it is none."""
    return msgspec.json.decode(data, type=BackupEnd)


def row(
    data: bytes, tables: Mapping[str, Mapping[str, str]]
) -> tuple[str, dict[str, Stored]]:
    """Read a line of a row: its table, and its values by their columns.

    Raise ValueError for values that the columns cannot have.
    """
    name, *values = msgspec.json.decode(data, type=list[Value])
    kinds = tables.get(name) if isinstance(name, str) else None
    if kinds is None or len(values) != len(kinds):
        raise ValueError("a row is of no table")
    pairs = zip(kinds.items(), values, strict=True)
    return str(name), {
        column: value if value is None else _READ[kind](value)
        for (column, kind), value in pairs
    }


def row_line(table: str, values: Sequence[object]) -> bytes:
    """Return a row as a line."""
    return line([table, *values])


def _text(value: Value) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("a value is no text")
    return value


def _int(value: Value) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _MOST:
        raise ValueError("a value is no whole number")
    return value


def _float(value: Value) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("a value is no number")
    return float(value)


def _bool(value: Value) -> bool:
    if not isinstance(value, bool):
        raise ValueError("a value is neither true nor false")
    return value


def _bytes(value: Value) -> bytes:
    try:
        return base64.b64decode(_text(value), validate=True)
    except binascii.Error as error:
        raise ValueError("a value is no Base64") from error


_READ: Mapping[str, Callable[[Value], Stored]] = {
    "text": _text,
    "int": _int,
    "float": _float,
    "bool": _bool,
    "bytes": _bytes,
}
