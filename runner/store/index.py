"""The SQLite index of runs, a cache of the records in the runs' folders.

There are no migrations: a file of another version, or a damaged one, is rebuilt. Where
the file cannot be written, its tables are held in memory, with a warning.
"""

from __future__ import annotations

import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runner import files
from runner.core import Problem, RunRecord
from runner.core.errors import RaiError
from runner.store.entries import SHOWN, Entry, from_row, to_row
from runner.store.query import ACTIVE, ENDED, NEWEST, RunOrder, RunQuery, order, where
from runner.store.statements import ADD, COLUMNS, MAKE, OWN, PUT, REMOVE

VERSION = 3
"""Incremented with each change of the columns."""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

BUSY_S = 10.0
"""How long a process waits for another that writes."""

SOON_S = 0.1
AT_ONCE = 1000
"""How many records are held in memory while an index is made."""

IN_MEMORY = Path(":memory:")
ALL = RunQuery()

Own = tuple[str, str]
"""A run's tag and its note."""

Change = tuple[str, list[tuple[Any, ...]]]
_NEWEST = f"ORDER BY {NEWEST}"


class IndexWarning(UserWarning):
    """The file of the index cannot be used; runs are listed from their folders."""


class Index:
    """An open index; a context manager that closes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unread: set[str] = set()
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
            self._change((PUT, [to_row(record) for record in records]))

    def remove(self, *run_ids: str) -> None:
        """Remove runs."""
        rows = [(run_id,) for run_id in run_ids]
        self._change((REMOVE, rows), ("DELETE FROM seen", [()]))

    def tag(self, tags: Mapping[str, str]) -> None:
        """Set the tags of runs by their ids; "" for none."""
        self._set("tag", tags)

    def annotate(self, notes: Mapping[str, str]) -> None:
        """Set the notes of runs by their ids; "" for none."""
        self._set("note", notes)

    def measured(self, sizes: Mapping[str, int]) -> None:
        """Set the sizes of runs by their ids."""
        self._set("size_bytes", sizes)

    def sync(
        self,
        changed_ns: int,
        present: Callable[[], set[str]],
        read: Callable[[str], RunRecord | None],
        own: Callable[[str], Own] = lambda name: ("", ""),
        age: Callable[[str], float] = lambda name: 0.0,
    ) -> None:
        """Remove the runs that are no longer present, and add those that are new.

        ``changed_ns`` is another number after each change of the names that are
        present, 0 if that is not known. With the number of the last call, only the
        names that had no record then are looked at. ``read`` returns a run's record, if
        it has one yet, ``own`` its tag and its note. Those of the least ``age`` are
        read first, as a listing is fast where they lie in the file by their times.
        """
        before = self._others(changed_ns)
        names = self._new(present) if before is None else before
        added = set[str]()
        left = iter(sorted(names, key=age))
        while some := tuple(islice(left, AT_ONCE)):
            found = [one for name in some if (one := read(name)) is not None]
            self._add(found, own)
            added.update(one.id for one in found)
        self._unread = names - added
        if changed_ns and self._unread != before:
            # Only saves time: a disk that is full does not stop a command that reads.
            with suppress(RaiError), self._writing():
                seen = (changed_ns, "/".join(sorted(self._unread)))
                self._connection.execute("DELETE FROM seen")
                self._connection.execute("INSERT INTO seen VALUES (?, ?)", seen)

    def _add(self, found: Sequence[RunRecord], own: Callable[[str], Own]) -> None:
        """Add runs, with what their users gave them, all together or not at all."""
        rows = [to_row(record) for record in found]
        owned = [(*own(one.id), one.id) for one in found]
        kept = [row for row in owned if row[0] or row[1]]
        if rows:
            self._change((ADD, rows), (OWN, kept))

    def unfinished(self) -> set[str]:
        """Return the runs that have not ended, and the names without a record."""
        active = {row[0] for row in self._select("id", f"WHERE {ACTIVE}")}
        return active | self._unread

    def tagged(self, tag: str) -> list[str]:
        """Return the ids of the runs with a tag, newest first."""
        where = f"WHERE tag != '' AND tag = ? {_NEWEST}"
        return [row[0] for row in self._select("id", where, tag)]

    def find(self, prefix: str) -> list[str]:
        """Return the ids that begin with a prefix, newest first."""
        where = f"WHERE substr(id, 1, ?) = ? {_NEWEST}"
        return [row[0] for row in self._select("id", where, len(prefix), prefix)]

    def latest(self) -> str | None:
        """Return the id of the newest run."""
        rows = self._select("id", f"{_NEWEST} LIMIT 1")
        return rows[0][0] if rows else None

    def before(self, run_id: str) -> str | None:
        """Return the newest ended run of a run's project that is older than it."""
        # To read the whole table is quicker than to look up each run of the index.
        where = (
            f"NOT INDEXED WHERE {ENDED} AND"
            " (created_at, id) < (SELECT created_at, id FROM runs WHERE id = ?) AND"
            f" project = (SELECT project FROM runs WHERE id = ?) {_NEWEST} LIMIT 1"
        )
        rows = self._select("id", where, run_id, run_id)
        return rows[0][0] if rows else None

    def list_runs(
        self,
        query: RunQuery = ALL,
        limit: int | None = None,
        by: RunOrder = RunOrder.WHEN,
        *,
        reverse: bool = False,
    ) -> list[Entry]:
        """Return the runs that a query asks for, sorted; no more than ``limit``."""
        conditions, values = where(query)
        sorting = f"ORDER BY {order(by, reverse=reverse)} LIMIT ?"
        values.append(-1 if limit is None else limit)
        rows = self._select(", ".join(SHOWN), f"WHERE {conditions} {sorting}", *values)
        return [from_row(row) for row in rows]

    def projects(self) -> set[str]:
        """Return the projects of the runs."""
        return {row[0] for row in self._select("DISTINCT project", "")}

    def damaged(self, boot: int) -> bool:
        """Whether the file is not a sound database.

        It is read whole only once after each start of the system, as nothing else
        leaves it half written. ``boot`` tells them apart, 0 if it is not known.
        """
        try:
            execute = self._connection.execute
            if boot and execute("PRAGMA application_id").fetchone() == (boot,):
                return False
            check = execute("PRAGMA quick_check(1)").fetchone()
            if boot and check == ("ok",):
                self._keep_boot(boot)
        except sqlite3.OperationalError as error:
            raise _failed(self._path, error) from error
        except sqlite3.DatabaseError:
            return True
        return bool(check != ("ok",))

    def _keep_boot(self, boot: int) -> None:
        # A file that cannot be written to is checked again the next time.
        with suppress(RaiError), self._writing():
            self._connection.execute(f"PRAGMA application_id = {boot}")

    @property
    def version(self) -> int:
        """The version of the file; 0 for a new one."""
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def make(self) -> None:
        """Make the tables anew, unless another process just did."""
        with self._writing():
            if self.version == VERSION:
                return
            for statement in MAKE:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    def _new(self, present: Callable[[], set[str]]) -> set[str]:
        """Remove the runs that are no longer present; return the names not listed."""
        # In this order a run that is added meanwhile is not removed.
        ((ids,),) = self._select("group_concat(id, '/')", "")  # faster than rows
        listed = set(ids.split("/")) if ids else set[str]()
        names = present()
        if absent := listed - names:
            self.remove(*absent)
        return names - listed

    def _others(self, changed_ns: int) -> set[str] | None:
        """Return the names without a record at the last sync; None after a change."""
        query = "SELECT others FROM seen WHERE changed_ns = ?"
        rows = self._query(query, changed_ns)
        return set(rows[0][0].split("/")) - {""} if rows else None

    def _set(self, column: str, values: Mapping[str, object]) -> None:
        rows = [(value, name) for name, value in values.items()]
        self._change((f"UPDATE runs SET {column} = ? WHERE id = ?", rows))

    def _select(self, what: str, where: str, *values: object) -> list[Any]:
        return self._query(f"SELECT {what} FROM runs {where}", *values)

    def _query(self, query: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _failed(self._path, error) from error

    def _change(self, *statements: Change) -> None:
        """Execute statements for their rows; in memory if the file refuses."""
        try:
            self._execute(*statements)
        except RaiError as error:
            listed = self._select("*", "")
            warn(error)
            self.close()
            self._path, self._connection = IN_MEMORY, _connect(IN_MEMORY)
            self.make()
            places = ", ".join("?" * len(COLUMNS))
            copy = (f"INSERT INTO runs VALUES ({places})", listed)
            self._execute(copy, *statements)

    def _execute(self, *statements: Change) -> None:
        with self._writing():
            for statement, rows in statements:
                self._connection.executemany(statement, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            # Do not wait for the disk: after a power failure the index is rebuilt.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.execute("BEGIN IMMEDIATE")
            with self._connection:
                yield
        except sqlite3.Error as error:
            raise _failed(self._path, error) from error


def open_index(path: Path) -> Index:
    """Open the index; make an empty one if it is absent or damaged.

    Raises:
        RaiError: the file cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.touch(path)  # for its user alone
        index = Index(path)
    except (OSError, sqlite3.Error) as error:
        raise _failed(path, error) from error
    try:
        if index.damaged(_boot()):
            index.close()
            _remove(path)
            index = Index(path)
        if index.version != VERSION:
            index.make()
    except (OSError, sqlite3.Error) as error:
        index.close()
        raise _failed(path, error) from error
    except BaseException:
        index.close()
        raise
    return index


def warn(error: RaiError) -> None:
    """Warn that the file of the index cannot be used."""
    text = f"listing runs from their folders, which takes longer: {error}"
    warnings.warn(IndexWarning(text), stacklevel=2)


def suggested(path: Path, prefix: str, most: int, *, active: bool) -> list[str]:
    """Return the tags, then the ids, that begin with a prefix; all: the newest first.

    It reads the file as it is, and never for long: a user waits for it while typing.
    ``active`` leaves out the runs that have ended.

    Raises:
        sqlite3.Error: there is no index, or another process holds it.
    """
    state = ACTIVE if active else "1"
    between = (prefix, prefix + "\U0010ffff", most)
    tags = f"SELECT tag FROM runs WHERE tag != '' AND tag BETWEEN ? AND ? AND {state}"
    ids = f"SELECT id FROM runs WHERE id BETWEEN ? AND ? AND {state} LIMIT ?"
    newest = f"SELECT id FROM runs WHERE {state} {_NEWEST} LIMIT ?"
    with closing(_reading(path)) as opened:
        found = opened.execute(f"{tags} LIMIT ?", between).fetchall()
        found += opened.execute(*((ids, between) if prefix else (newest, (most,))))
    return [row[0] for row in found[:most]]


def known(path: Path, column: str, prefix: str, most: int) -> list[str]:
    """Return the values of a column of texts that begin with a prefix.

    It reads the file as ``suggested`` does, and raises as that does.
    """
    between = (prefix, prefix + "\U0010ffff", most)
    where = f"{column} != '' AND {column} BETWEEN ? AND ?"
    query = f"SELECT DISTINCT {column} FROM runs WHERE {where} LIMIT ?"
    with closing(_reading(path)) as opened:
        return [row[0] for row in opened.execute(query, between).fetchall()]


def _reading(path: Path) -> sqlite3.Connection:
    file = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(file, timeout=SOON_S, uri=True)


def _connect(path: Path) -> sqlite3.Connection:
    # Another thread may carry a run to its end, and then it alone has this.
    return sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )


def _boot() -> int:
    """Return a number of this start of the system; 0 if it is not known."""
    try:
        return zlib.crc32(BOOT_ID.read_bytes()) >> 1
    except OSError:
        return 0


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    # SQLite would replay a journal that is left behind into the new file.
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)


def _failed(path: Path, error: Exception) -> RaiError:
    if type(error) is sqlite3.DatabaseError:
        with suppress(OSError):
            _remove(path)
        text = f"the index of runs, {path}, was damaged: {error}"
        return RaiError(Problem(text, hint="run the command again, which remakes it"))
    why = error.strerror if isinstance(error, OSError) else error
    return RaiError(f"cannot use the index of runs, {path}: {why}")
