"""SQLite files that are not trusted, opened for reading with bounds on everything.

The schema of a crafted file can hold views, triggers, virtual tables and computed
columns, which are code. Only plain tables are read, and only by the statements of this
program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from runner.figures.traces.sums import LONGEST_TITLE, bounded

LONGEST_VALUE = 1 << 20
"""Bytes of a text; a file with a longer one in what is read is not read further."""

STEP = 1 << 20
LEAST_STEPS = 64
MOST_STEPS = 3000
STEPS_A_MIB = 16
"""What SQLite's virtual machine may do, in STEPs, by the size of the file.

A file's pages can lead to each other, so that a small one has endless rows. The rows of
one MiB take about 2 STEPs for all that is read.
"""

ROWS_AT_ONCE = 2_000

Value = int | float | str | bytes | None

Failure = (sqlite3.Error, UnicodeDecodeError)
"""The errors of a file that is damaged, crafted, or too much work.

An error's words may quote the file, and then be no text.
"""

_ALLOWED = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
_FUNCTIONS = frozenset({"count", "total", "min", "max", "substr", "coalesce", "typeof"})

_ROW_NUMBERS = frozenset({"rowid", "_rowid_", "oid"})
"""SQLite's names for a row's number, unless a column has that name."""


class Database:
    """A file's plain tables."""

    def __init__(self, path: Path) -> None:
        where = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        self._base = sqlite3.connect(where, uri=True, cached_statements=32)
        self._base.text_factory = lambda data: data.decode(errors="replace")
        size = path.stat().st_size
        self._steps_left = min(
            MOST_STEPS, LEAST_STEPS + STEPS_A_MIB * size // (1 << 20)
        )
        try:
            self._restrict()
            self._columns = self._plain_tables()
            self._base.set_authorizer(_authorized)
        except BaseException:
            self._base.close()
            raise

    def _restrict(self) -> None:
        base = self._base
        base.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        base.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        base.set_progress_handler(self._go_on, STEP)
        for setting in (
            "trusted_schema = OFF",
            "query_only = ON",
            "cell_size_check = ON",
            "mmap_size = 0",
        ):
            base.execute(f"PRAGMA {setting}")

    def _go_on(self) -> int:
        self._steps_left -= 1
        return int(self._steps_left < 0)

    def _plain_tables(self) -> dict[str, frozenset[str]]:
        """Return the columns of each table that is stored in the file as it is."""
        rows = self._base.execute(
            "SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_master"
            " WHERE type IN ('table', 'view') LIMIT 1000"
        ).fetchall()
        found = {}
        self._others = {str(name) for name, _ in rows}
        for name, plain in rows:
            if not plain:
                continue
            columns = self._base.execute(
                "SELECT name, hidden FROM pragma_table_xinfo(?)", (name,)
            ).fetchall()
            names = frozenset(str(column) for column, _ in columns)
            computed = any(hidden for _, hidden in columns)
            if not computed and _ROW_NUMBERS.isdisjoint(map(str.lower, names)):
                found[str(name)] = names
        self._others -= found.keys()
        return found

    @property
    def tables(self) -> frozenset[str]:
        """Return the names of the plain tables."""
        return frozenset(self._columns)

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a plain table with these columns."""
        return table in self._columns and self._columns[table].issuperset(columns)

    def lacks(self, table: str, columns: frozenset[str]) -> str | None:
        """Return why columns of a table cannot be read; None if they can.

        "" if nothing has the table's name.
        """
        if (there := self._columns.get(table)) is None:
            odd = "cannot be used: it is no plain table"
            return odd if table in self._others else ""
        lacking = ", ".join(sorted(columns - there))
        return f"lacks columns: {lacking}" if lacking else None

    def rows(self, query: str, *values: Value) -> Iterator[tuple[Value, ...]]:
        """Yield the rows of a query.

        Raise an error if there was too much work before, which many small queries are.
        """
        if self._steps_left < 0:
            raise sqlite3.OperationalError("interrupted")
        return iter(self._base.execute(query, values))

    def batches(self, query: str, most: int) -> Iterator[list[tuple[Value, ...]]]:
        """Yield the rows of a query, at most ``most``, many at once."""
        found = self._base.execute(query)
        while most > 0 and (rows := found.fetchmany(min(most, ROWS_AT_ONCE))):
            yield rows
            most -= len(rows)
        found.close()

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _authorized(
    action: int,
    first: str | None,
    second: str | None,
    _database: str | None,
    _source: str | None,
) -> int:
    if action in _ALLOWED:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def message_of(error: Exception) -> str:
    """Return what an error says, which may quote the file."""
    if isinstance(error, UnicodeDecodeError):
        return "its schema is no text"
    return bounded(str(error), LONGEST_TITLE)
