"""The SQLite file that `-o` writes and `-i` reads, documented in docs/gpu.md."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from nvprof import filter as kernel_filter
from nvprof import names, stream
from nvprof.stream import Fields, Header, Kind, Section
from nvprof.summary import Total

FORMAT = 1

TABLES = """
CREATE TABLE nvprof (key TEXT PRIMARY KEY, value);
CREATE TABLE name (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE device (
  id INTEGER PRIMARY KEY, name TEXT, capability INTEGER, multiprocessors INTEGER);
CREATE TABLE kernel (
  start INTEGER, end INTEGER,
  device INTEGER, context INTEGER, stream INTEGER, correlation INTEGER,
  grid_x INTEGER, grid_y INTEGER, grid_z INTEGER,
  block_x INTEGER, block_y INTEGER, block_z INTEGER,
  registers INTEGER, static_shared INTEGER, dynamic_shared INTEGER,
  name INTEGER REFERENCES name);
CREATE TABLE memcpy (
  start INTEGER, end INTEGER, bytes INTEGER,
  device INTEGER, context INTEGER, stream INTEGER, correlation INTEGER,
  name INTEGER REFERENCES name, source INTEGER, destination INTEGER);
CREATE TABLE memset (
  start INTEGER, end INTEGER, bytes INTEGER,
  device INTEGER, context INTEGER, stream INTEGER, correlation INTEGER,
  name INTEGER REFERENCES name, value INTEGER);
CREATE TABLE api (
  start INTEGER, end INTEGER, thread INTEGER, correlation INTEGER,
  name INTEGER REFERENCES name, result INTEGER);
CREATE VIEW launch AS
  SELECT kernel.*, text AS kernel, api.start AS called, api.end AS returned,
    api.thread, (SELECT text FROM name WHERE id = api.name) AS call
  FROM kernel JOIN name ON name.id = kernel.name
  LEFT JOIN api ON api.correlation = kernel.correlation;
"""
"""The schema; times are in nanoseconds since the start of the recording."""

INDICES = """
CREATE INDEX kernel_correlation ON kernel (correlation);
CREATE INDEX memcpy_correlation ON memcpy (correlation);
CREATE INDEX memset_correlation ON memset (correlation);
CREATE INDEX api_correlation ON api (correlation);
"""

FILLED = {
    Kind.KERNEL: ("kernel", 16),
    Kind.MEMCPY: ("memcpy", 10),
    Kind.MEMSET: ("memset", 9),
    Kind.API: ("api", 6),
}
"""The table of each kind of activity, and its number of columns."""


NUMBERS = ("pid", "ended", "dropped", "lost")
"""The numeric facts of a process that are used for printing."""

Failure = sqlite3.Error
"""The error that SQLite raises, for example on a full disk."""


class WrongFile(Exception):
    """The file was not written by `-o`; the message says what it is."""


def written(path: Path, file: BinaryIO, header: Header, demangled: bool) -> None:
    """Convert a process's recording to a new SQLite file."""
    base = sqlite3.connect(path)
    try:
        base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        base.executescript(TABLES)
        base.executemany("INSERT INTO nvprof VALUES (?, ?)", _facts(header))
        _fill(base, file, header, demangled)
        base.executescript(INDICES)
        base.commit()
    finally:
        base.close()


def _facts(header: Header) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [("format", FORMAT)]
    for key, value in header._asdict().items():
        if key == "command":
            value = "\0".join(value)
        if key not in ("trace", "committed", "base"):
            facts.append((key, value))
    return facts


def _fill(
    base: sqlite3.Connection, file: BinaryIO, header: Header, demangled: bool
) -> None:
    spell = names.nvprof if demangled else str
    texts: dict[int, str] = {}
    insert = {
        kind: f"INSERT INTO {table} VALUES ({', '.join('?' * columns)})"
        for kind, (table, columns) in FILLED.items()
    }
    since = header.base
    for kind, records in stream.batches(file, header.committed):
        if kind in insert:
            timed = (
                (max(0, start - since), max(0, end - since), *rest)  # type: ignore[operator]
                for start, end, *rest in records
            )
            base.executemany(insert[kind], timed)
        elif kind == Kind.NAME:
            spelled = [(number, spell(str(text))) for number, text in records]
            texts.update((int(number), text) for number, text in spelled)
            base.executemany("INSERT OR REPLACE INTO name VALUES (?, ?)", spelled)
        elif kind == Kind.DEVICE:
            devices = [_device(record, texts) for record in records]
            base.executemany(
                "INSERT OR REPLACE INTO device VALUES (?, ?, ?, ?)", devices
            )


def _device(record: Fields, texts: dict[int, str]) -> tuple[object, ...]:
    number, capability, multiprocessors, name = record
    return number, texts.get(int(name), ""), capability, multiprocessors


def keep(path: Path, filters: tuple[kernel_filter.KernelFilter, ...]) -> None:
    """Delete the launches that no filter matches; invocations count from 1."""
    if not filters:
        return
    base = sqlite3.connect(path)
    try:
        _add_function(base, filters)
        base.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        base.execute(f"DELETE FROM kernel WHERE rowid NOT IN ({TAKEN})")
        base.commit()
        base.execute("VACUUM")
    finally:
        base.close()


TAKEN = (
    "SELECT row FROM ("
    " SELECT kernel.rowid AS row, text, context, stream, row_number() OVER"
    " (PARTITION BY text ORDER BY start, correlation) AS turn"
    " FROM main.kernel AS kernel JOIN name ON name.id = kernel.name)"
    " WHERE takes(text, context, stream, turn)"
)


def _add_function(
    base: sqlite3.Connection, filters: tuple[kernel_filter.KernelFilter, ...]
) -> None:
    """Define the SQL function `takes`: whether the filters match a launch."""

    def takes(text: str, context: int, stream_: int, turn: int) -> bool:
        return kernel_filter.takes(filters, text, context, stream_, turn)

    base.create_function("takes", 4, takes, deterministic=True)


class Store:
    """An SQLite file, opened for reading."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            start = file.read(16)
        if start != b"SQLite format 3\0":
            raise WrongFile(_kind(start))
        self._base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            self.facts = self._facts()
        except BaseException:
            self.close()
            raise

    def _facts(self) -> dict[str, object]:
        try:
            tables = {
                name for (name,) in self._base.execute("SELECT name FROM sqlite_master")
            }
        except sqlite3.DatabaseError as error:
            raise WrongFile(f"is damaged: {error}") from error
        if not {"nvprof", "kernel", "api"} <= tables:
            raise WrongFile(origin(tables))
        try:
            facts = dict(self._base.execute("SELECT key, value FROM nvprof"))
        except sqlite3.Error as error:
            raise WrongFile(f"is damaged: {error}") from error
        if facts.get("format") != FORMAT:
            raise WrongFile("was written by another version of nvprof")
        return facts

    def check(self) -> None:
        """Raise WrongFile if a value does not have its column's type.

        SQLite does not enforce types, and another program may have changed the file.
        """
        for key in NUMBERS:
            if not isinstance(self.facts.get(key, 0), int):
                raise WrongFile(f"is damaged: {key} is not a number")
        for table, columns in _columns().items():
            odd = " OR ".join(
                f"typeof({table}.{column}) != '{kind}'" for column, kind in columns
            )
            query = f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1"
            if next(self.select(query), None) is not None:
                raise WrongFile(
                    f"is damaged: table {table} has a value of a wrong type"
                )

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def restrict(self, filters: tuple[kernel_filter.KernelFilter, ...]) -> None:
        """Hide the launches that no filter matches, without changing the file."""
        if filters:
            _add_function(self._base, filters)
            # A temporary table hides the file's table of the same name.
            self._base.executescript(
                f"CREATE TEMP TABLE kernel AS SELECT * FROM main.kernel"
                f" WHERE rowid IN ({TAKEN});"
                " CREATE INDEX temp.kernel_launch ON kernel (correlation);"
            )

    def number(self, key: str) -> int:
        """Return a numeric fact of the process."""
        return int(str(self.facts.get(key) or 0))

    @property
    def command(self) -> str:
        """Return the process's command line."""
        return str(self.facts.get("command", "")).replace("\0", " ")

    def devices(self) -> dict[int, str]:
        """Return the GPUs' names by number."""
        return dict(self._base.execute("SELECT id, name FROM device ORDER BY id"))

    def totals(self) -> list[Total]:
        """Return the totals of each name and GPU."""
        found: list[Total] = []
        for table in ("kernel", "memcpy", "memset", "api"):
            section = Section.CALLS if table == "api" else Section.GPU
            device = "0" if table == "api" else "device"
            found += [
                Total(section, *row)
                for row in self._base.execute(
                    f"SELECT text, {device}, count(*), sum(end - start),"
                    " min(end - start), max(end - start)"
                    f" FROM {table} JOIN name ON name.id = {table}.name"
                    " GROUP BY 1, 2"
                )
            ]
        return found

    def select(self, query: str, *values: object) -> Iterator[tuple[object, ...]]:
        """Yield the rows of a query."""
        return iter(self._base.execute(query, values))


def _columns() -> dict[str, list[tuple[str, str]]]:
    """Return each table's columns with their types, in the words of `typeof`."""
    base = sqlite3.connect(":memory:")
    try:
        base.executescript(TABLES)
        return {
            table: [
                (column, kind.lower())
                for _, column, kind, *_ in base.execute(f"PRAGMA table_info({table})")
            ]
            for table in ("name", "device", "kernel", "memcpy", "memset", "api")
        }
    finally:
        base.close()


def origin(tables: set[str]) -> str:
    """Return which program wrote an SQLite file with these tables."""
    if "StringTable" in tables or "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL" in tables:
        return "was written by NVIDIA's nvprof, whose format is not supported"
    if "StringIds" in tables or "META_DATA_EXPORT" in tables:
        return "was written by Nsight Systems; use `nsys stats`"
    return "is an SQLite file that nvprof did not write"


def _kind(start: bytes) -> str:
    if start.startswith(b"NVR"):
        return "is a report of Nsight Compute; use `ncu --import`"
    if start.startswith(stream.MAGIC):
        return "is a raw recording that was not exported"
    return "was not written by nvprof"
