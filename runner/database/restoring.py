"""Make a store from a backup."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, MetaData, Table, func, select
from sqlalchemy.exc import DataError, IntegrityError

from runner import files
from runner.archive.zstd_lines import zstd_lines
from runner.core.errors import RaiError
from runner.core.units import MIB
from runner.database import backup_lines, run_rows, schema
from runner.database.backup import tables
from runner.database.backup_lines import LONGEST_LINE, BackupFacts, Stored
from runner.database.connections import Transactions, parse, sqlite_file
from runner.database.tables import runs, server, tokens
from runner.wire.accounts import Scope
from runner.wire.remote_runs import QueueState

_ROWS = 500
_BYTES = 1 * MIB
"""How many rows are in memory at a time, at most, and of how many bytes of lines."""

_STATES = frozenset(QueueState)
_SCOPES = frozenset(Scope)


def restore(path: Path, url: str) -> BackupFacts:
    """Fill an empty store from a backup; return what that held.

    A backup of an earlier schema is brought to the newest. All of it is restored, or
    nothing: raise RaiError for a store that is not empty, and for a backup that is
    damaged, hostile, or newer than this rai.
    """
    target = sqlite_file(parse(url))
    new = target is not None and not target.exists()
    store = Transactions(url)
    done = False
    try:
        with store.writing() as link:
            schema.lock(link)
            _clear(link, store.shown)
            facts = _restored(link, path)
        done = True
        return facts
    except ValueError as error:
        raise RaiError(f"the backup {path} is damaged: {error}", advice="") from error
    except OSError as error:
        raise RaiError(files.problem(error), advice="") from error
    finally:
        store.close()
        if target is not None and new and not done:
            with suppress(OSError):  # an empty file would be opened as a new store
                target.unlink()


def _clear(link: Connection, where: str) -> None:
    """Remove the tables of a store that was made and never used.

    Raise RaiError for one that holds anything, and for a database of others.
    """
    found = schema.revision_at(link)
    schema.refuse_others(link, found, where)
    for table in tables(link):
        rows = select(func.count()).select_from(table)
        if table.name != server.name and link.execute(rows).scalar_one():
            raise RaiError(
                f"the store {where} is not empty, and a backup is restored into an"
                " empty one only: name another, or move it away",
                advice="",
            )
    every = MetaData()
    every.reflect(link)
    every.drop_all(link)


def _restored(link: Connection, path: Path) -> BackupFacts:
    lines = zstd_lines(path, LONGEST_LINE)
    first = next(lines, None)
    if first is None:
        raise ValueError("it is empty")
    head = backup_lines.head(first)
    if head.revision > schema.newest():
        raise RaiError(
            f"the backup {path} has the schema {head.revision!r}, which is newer than"
            f" this rai knows ({schema.newest()}): restore it with a newer rai",
            advice="",
        )
    if head.revision not in schema.known():
        raise ValueError(f"there is no schema {head.revision!r}")
    schema.migrate(link, head.revision)
    made = {str(table.name): table for table in tables(link)}
    if head.tables != {name: backup_lines.columns(made[name]) for name in made}:
        raise ValueError("its tables are not those of its schema")
    link.execute(made[server.name].delete())  # the backup brings its row
    rows = _filled(link, made, head.tables, first, lines)
    schema.migrate(link, schema.newest())
    _check(link)
    return BackupFacts(head.revision, rows)


def _filled(
    link: Connection,
    made: Mapping[str, Table],
    kinds: Mapping[str, Mapping[str, str]],
    first: bytes,
    lines: Iterator[bytes],
) -> dict[str, int]:
    """Insert all rows; return how many each table has, which the last line confirms."""
    rows = dict.fromkeys(made, 0)
    digest = hashlib.sha256(first)
    waiting: list[dict[str, Stored]] = []
    table, size = "", 0
    last = next(lines, b"")
    for following in lines:
        line, last = last, following
        digest.update(line)
        name, values = backup_lines.row(line, kinds)
        size += len(line)
        if name != table or len(waiting) >= _ROWS or size > _BYTES:
            _insert(link, made, table, waiting)
            waiting, table, size = [], name, len(line)
        waiting.append(values)
        rows[name] += 1
    _insert(link, made, table, waiting)
    end = backup_lines.end(last)
    if end.sha256 != digest.hexdigest() or end.rows != rows:
        raise ValueError("its rows are not those that were written")
    return rows


def _insert(
    link: Connection,
    made: Mapping[str, Table],
    table: str,
    rows: list[dict[str, Stored]],
) -> None:
    if not rows:
        return
    try:
        link.execute(made[table].insert(), rows)
    except (IntegrityError, DataError) as error:
        cause = str(error.orig).strip().partition("\n")[0]
        raise ValueError(f"a row of {table} cannot be: {cause}") from error


def _check(link: Connection) -> None:
    """Raise ValueError for values that no store has, and could not be read again."""
    states = set(link.execute(select(runs.c.state).distinct()).scalars())
    reasons = set(link.execute(select(runs.c.reason).distinct()).scalars())
    scopes = set(link.execute(select(tokens.c.scopes).distinct()).scalars())
    words = {word for text in scopes for word in text.split()}
    if not (
        states <= _STATES
        and reasons - {None} <= run_rows.REASONS.keys()
        and words <= _SCOPES
    ):
        raise ValueError("a run or a token is in a state that there is not")
    latest = link.execute(select(func.max(runs.c.changed))).scalar() or 0
    counted = link.execute(select(server.c.changes)).scalars().all()
    if len(counted) != 1 or counted[0] < latest:
        raise ValueError("it has not counted its changes")
