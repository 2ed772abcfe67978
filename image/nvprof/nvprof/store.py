"""The SQLite file that `-o` writes and `-i` reads; its tables are in docs/nvprof.md."""

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
"""Times are nanoseconds since the recording began."""

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
"""The table of each kind of activity, and its columns."""


NUMBERS = ("pid", "ended", "dropped", "lost")
"""The facts of a process that are printed or counted with."""

Failure = sqlite3.Error
"""What is raised where SQLite cannot go on, as on a disk that is full."""


class NotOurs(Exception):
    """The file is not one that `-o` writes; the text says what it is."""


def written(path: Path, file: BinaryIO, header: Header, demangled: bool) -> None:
    """Write what a process recorded into a new SQLite file."""
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
    """Delete the kernels that no filter takes; each kernel's launches count from 1."""
    if not filters:
        return
    base = sqlite3.connect(path)
    try:
        _teach(base, filters)
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


def _teach(
    base: sqlite3.Connection, filters: tuple[kernel_filter.KernelFilter, ...]
) -> None:
    """Let queries ask whether the filters take a launch."""

    def takes(text: str, context: int, stream_: int, turn: int) -> bool:
        return kernel_filter.takes(filters, text, context, stream_, turn)

    base.create_function("takes", 4, takes, deterministic=True)


class Store:
    """One SQLite file, opened to be read."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            start = file.read(16)
        if start != b"SQLite format 3\0":
            raise NotOurs(_what(start))
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
            raise NotOurs(f"is damaged: {error}") from error
        if not {"nvprof", "kernel", "api"} <= tables:
            raise NotOurs(whose(tables))
        try:
            facts = dict(self._base.execute("SELECT key, value FROM nvprof"))
        except sqlite3.Error as error:
            raise NotOurs(f"is damaged: {error}") from error
        if facts.get("format") != FORMAT:
            raise NotOurs("is of another version of this program")
        return facts

    def check(self) -> None:
        """See that each value is what its column is for, as another hand left it."""
        for key in NUMBERS:
            if not isinstance(self.facts.get(key, 0), int):
                raise NotOurs(f"is damaged: {key} is no number")
        for table, columns in _columns().items():
            odd = " OR ".join(
                f"typeof({table}.{column}) != '{kind}'" for column, kind in columns
            )
            query = f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1"
            if next(self.select(query), None) is not None:
                raise NotOurs(f"is damaged: table {table} has an odd value")

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def restrict(self, filters: tuple[kernel_filter.KernelFilter, ...]) -> None:
        """Hide the kernels that no filter takes, and leave the file as it is."""
        if filters:
            _teach(self._base, filters)
            # A temporary table hides the file's own of the same name.
            self._base.executescript(
                f"CREATE TEMP TABLE kernel AS SELECT * FROM main.kernel"
                f" WHERE rowid IN ({TAKEN});"
                " CREATE INDEX temp.kernel_launch ON kernel (correlation);"
            )

    def number(self, key: str) -> int:
        """Give a fact of the process that is a number."""
        return int(str(self.facts.get(key) or 0))

    @property
    def command(self) -> str:
        """Give the process's command line."""
        return str(self.facts.get("command", "")).replace("\0", " ")

    def devices(self) -> dict[int, str]:
        """Give each GPU's name by its number."""
        return dict(self._base.execute("SELECT id, name FROM device ORDER BY id"))

    def totals(self) -> list[Total]:
        """Add up each name's activities."""
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
        """Give the rows of a query as they come."""
        return iter(self._base.execute(query, values))


def _columns() -> dict[str, list[tuple[str, str]]]:
    """Give each table's columns, and their types as `typeof` has them."""
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


def whose(tables: set[str]) -> str:
    """Say whose SQLite file has these tables."""
    if "StringTable" in tables or "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL" in tables:
        return "was written by NVIDIA's own nvprof, whose tables are not read here"
    if "StringIds" in tables or "META_DATA_EXPORT" in tables:
        return "was written by Nsight Systems; `nsys stats` reads it"
    return "is an SQLite file, but not one of nvprof's"


def _what(start: bytes) -> str:
    if start.startswith(b"NVR"):
        return "is a report of Nsight Compute; `ncu --import` reads it"
    if start.startswith(stream.MAGIC):
        return "is the raw recording of a process that was not exported"
    return "is no file that nvprof wrote"
