"""Write a backup of a store, while others use it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import Connection, MetaData, Table, select

from runner import files
from runner.archive.compressed import Compressed
from runner.core.errors import RaiError
from runner.database import backup_lines, schema
from runner.database.backup_lines import (
    FORMAT,
    NUMBERED,
    BackupEnd,
    BackupFacts,
    BackupHead,
)
from runner.database.connections import VERSION_TABLE, Transactions, parse, sqlite_file

_LARGE_ROWS = 8
_SMALL_ROWS = 500
"""How many rows are in memory at a time, with bytes of users among them or without."""


def backup(url: str, path: Path) -> BackupFacts:
    """Write all of a store to a file, as it is at one moment; return what that holds.

    It can be restored into SQLite and PostgreSQL alike. The file is readable by its
    owner alone, as it holds the secrets of runs that wait; it is there when it is
    whole. A store of an earlier schema can be kept too. Raise RaiError for a store
    that is empty or newer than this rai, or for a disk that is full.
    """
    if (source := sqlite_file(parse(url))) is not None and not source.exists():
        raise RaiError(f"there is no store {source}", advice="")
    store = Transactions(url)
    part = files.aside(path)
    try:
        with store.snapshot() as link:
            revision = schema.revision_at(link)
            if not revision:
                raise RaiError(f"the store {store.shown} is empty", advice="")
            schema.refuse_others(link, revision, store.shown)
            with files.naming(path), _opened(part) as out:
                facts = _write(link, revision, out)
                os.fsync(out.fileno())
        part.rename(path)
        return facts
    except OSError as error:
        raise RaiError(files.problem(error), advice="") from error
    finally:
        part.unlink(missing_ok=True)
        store.close()


def tables(link: Connection) -> list[Table]:
    """Return the tables of a store as they are, after those that they refer to."""
    found = MetaData()
    found.reflect(link)
    return [table for table in found.sorted_tables if table.name != VERSION_TABLE]


def _opened(part: Path) -> BinaryIO:
    part.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(part, flags, 0o600), "wb")


def _write(link: Connection, revision: str, out: BinaryIO) -> BackupFacts:
    every = tables(link)
    # A name that was reflected is no plain string.
    columns = {str(table.name): backup_lines.columns(table) for table in every}
    rows = dict.fromkeys(columns, 0)
    with Compressed(out) as file:
        file.write(backup_lines.line(BackupHead(FORMAT, revision, columns)))
        for table in every:
            name = str(table.name)
            kinds, number = columns[name], NUMBERED.get(name)
            order = table.primary_key if number is None else [table.c[number]]
            query = select(*(table.c[one] for one in kinds)).order_by(*order)
            at_once = _LARGE_ROWS if "bytes" in kinds.values() else _SMALL_ROWS
            found = link.execute(query, execution_options={"yield_per": at_once})
            for row in found:
                file.write(backup_lines.row_line(name, row))
                rows[name] += 1
        file.write(backup_lines.line(BackupEnd(rows, file.sha256)))
    return BackupFacts(revision, rows)
