"""The SQLite index of runs, a cache of the records in the runs' folders.

There are no migrations: a file of another version, or a damaged one, is rebuilt. Where
the file cannot be used, the same table is held in memory, with a warning.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct

from runner.core import Inference, Reason, RunRecord, State
from runner.core.errors import RaiError

VERSION = 1
"""Incremented with each change of the columns."""

BUSY_S = 10.0
"""How long a process waits for another that writes."""

IN_MEMORY = Path(":memory:")


class IndexWarning(UserWarning):
    """The index of runs cannot be used; runs are listed from their folders."""


_COLUMNS = (
    "id TEXT PRIMARY KEY",
    "created_at REAL NOT NULL",
    "ended_at REAL",
    "project TEXT NOT NULL",
    "state TEXT NOT NULL",
    "reason TEXT",
    "engine TEXT NOT NULL",
    "exit_code INTEGER",
    "op_time_s REAL",
    "correctness REAL",
    "synthetic INTEGER NOT NULL",
)
_MAKE = f"CREATE TABLE runs ({', '.join(_COLUMNS)})"
_PUT = f"REPLACE INTO runs VALUES ({', '.join('?' * len(_COLUMNS))})"
_ADD = _PUT.replace("REPLACE", "INSERT OR IGNORE")
"""Keeps a run that another process has put meanwhile."""
_REMOVE = "DELETE FROM runs WHERE id = ?"
_REASONS = {reason.value: reason for reason in Reason}
_NEWEST = "ORDER BY created_at DESC, id DESC"


class Entry(Struct, frozen=True):
    """One run in the index.

    ``op_time_s`` is the least sum of op times of its inferences.
    """

    id: str
    created_at: float
    ended_at: float | None
    project: str
    state: State
    reason: Reason | None
    engine: str
    exit_code: int | None
    op_time_s: float | None
    correctness: float | None
    synthetic: bool


class Index:
    """An open index; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _connect(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def put(self, *records: RunRecord) -> None:
        """Add or replace runs."""
        if records:
            self._change(_PUT, [_row(record) for record in records])

    def remove(self, *run_ids: str) -> None:
        """Remove runs."""
        self._change(_REMOVE, [(run_id,) for run_id in run_ids])

    def sync(
        self,
        present: Callable[[], set[str]],
        read: Callable[[str], RunRecord | None],
    ) -> None:
        """Remove the runs that are no longer present, and add those that are new.

        ``read`` returns a run's record, if it has one yet.
        """
        # In this order a run that is added meanwhile is not removed.
        listed = {row[0] for row in self._select("id", "")}
        names = present()
        if absent := listed - names:
            self.remove(*absent)
        records = [one for name in names - listed if (one := read(name)) is not None]
        if records:
            self._change(_ADD, [_row(record) for record in records])

    def find(self, prefix: str) -> list[str]:
        """Return the ids that begin with a prefix, newest first."""
        where = f"WHERE substr(id, 1, ?) = ? {_NEWEST}"
        return [row[0] for row in self._select("id", where, len(prefix), prefix)]

    def latest(self) -> str | None:
        """Return the id of the newest run."""
        rows = self._select("id", f"{_NEWEST} LIMIT 1")
        return rows[0][0] if rows else None

    def list_runs(
        self,
        limit: int | None = None,
        project: str | None = None,
        active: bool | None = None,
    ) -> list[Entry]:
        """Return the runs, newest first; ``active`` selects running or ended ones."""
        final = [state.value for state in State if state.final]
        operator = "NOT IN" if active else "IN"
        conditions, values = ["1"], list[object]()
        if project is not None:
            conditions.append("project = ?")
            values.append(project)
        if active is not None:
            conditions.append(f"state {operator} ({', '.join('?' * len(final))})")
            values += final
        where = f"WHERE {' AND '.join(conditions)} {_NEWEST} LIMIT ?"
        rows = self._select("*", where, *values, -1 if limit is None else limit)
        return [_entry(row) for row in rows]

    def damaged(self) -> bool:
        """Whether the file is not a sound database."""
        try:
            check = self._connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            return True
        return bool(check != ("ok",))

    @property
    def version(self) -> int:
        """The version of the file; 0 for a new one."""
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def fill(self, records: Iterable[RunRecord]) -> None:
        """Rebuild the table, unless another process just did."""
        self._begin()
        with self._connection:
            if self.version == VERSION:
                return
            self._connection.execute("DROP TABLE IF EXISTS runs")
            self._connection.execute(_MAKE)
            self._connection.executemany(_PUT, map(_row, records))
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _select(self, what: str, where: str, *values: object) -> list[Any]:
        try:
            query = f"SELECT {what} FROM runs {where}"
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _failed(self._path, error) from error

    def _change(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        """Execute a statement for each row; in memory if the file refuses."""
        try:
            self._execute(statement, rows)
        except sqlite3.Error as error:
            listed = self._select("*", "")
            _warn(self._path, error)
            self.close()
            self._path, self._connection = IN_MEMORY, _connect(IN_MEMORY)
            self.fill(())
            self._execute(_PUT, listed)
            self._execute(statement, rows)

    def _execute(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        self._begin()
        with self._connection:
            self._connection.executemany(statement, rows)

    def _begin(self) -> None:
        # Do not wait for the disk: after a power failure the index is rebuilt.
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("BEGIN IMMEDIATE")


def open_index(path: Path, records: Callable[[], Iterable[RunRecord]]) -> Index:
    """Open the index; build it from ``records()`` if it is absent or unusable.

    It is built in memory, with an IndexWarning, if the file cannot be used.
    """
    try:
        return _opened(path, records)
    except (OSError, sqlite3.Error) as error:
        _warn(path, error)
    index = Index(IN_MEMORY)
    index.fill(records())
    return index


def _opened(path: Path, records: Callable[[], Iterable[RunRecord]]) -> Index:
    path.parent.mkdir(parents=True, exist_ok=True)
    index = Index(path)
    try:
        if index.damaged():
            index.close()
            _remove(path)
            index = Index(path)
        if index.version != VERSION:
            index.fill(records())
    except BaseException:
        index.close()
        raise
    return index


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    # SQLite would replay a journal that is left behind into the new file.
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)


def _row(record: RunRecord) -> tuple[object, ...]:
    inferences = record.findings.inferences
    verdict, best = record.verdict, _best(inferences)
    return (
        record.id,
        record.created_at,
        record.ended_at,
        record.project,
        record.state.value,
        verdict.reason.value if verdict else None,
        record.engine.name if record.engine else "",
        verdict.reason.exit_code if verdict else None,
        sum(best.op_times_s) if best and best.op_times_s else None,
        best.correctness if best else None,
        any(inference.synthetic for inference in inferences),
    )


def _best(inferences: tuple[Inference, ...]) -> Inference | None:
    """Return the fastest with op times, otherwise the last with a correctness."""
    timed = [i for i in inferences if i.op_times_s]
    if timed:
        return min(timed, key=lambda i: sum(i.op_times_s))
    right = [i for i in inferences if i.correctness is not None]
    return right[-1] if right else None


def _entry(row: tuple[Any, ...]) -> Entry:
    names = [column.split()[0] for column in _COLUMNS]
    values = dict(zip(names, row, strict=True))
    values["state"] = State(values["state"])
    values["reason"] = _REASONS.get(values["reason"])
    values["synthetic"] = bool(values["synthetic"])
    return Entry(**values)


def _failed(path: Path, error: Exception) -> RaiError:
    return RaiError(f"cannot use the index of runs, {path}: {error}")


def _warn(path: Path, error: Exception) -> None:
    why = error.strerror if isinstance(error, OSError) else error
    text = f"listing runs without their index, which takes longer: {path}: {why}"
    warnings.warn(IndexWarning(text), stacklevel=2)
