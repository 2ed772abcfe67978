"""Transactions on SQLite and PostgreSQL, which behave alike here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)

from runner import files
from runner.core.errors import BusyError, ConfigError, RaiError

AGAIN = "Try again in a while."
VERSION_TABLE = "rai_schema"
"""Where Alembic keeps the revision of a store."""

BUSY_S = 30.0
"""How long a call waits for others that write, or for a connection of the pool."""

CONNECT_S = 10

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_BEGIN = "rai_begin"
_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "secure_delete = ON",  # what a run's secrets were is overwritten
    "trusted_schema = OFF",
    f"journal_size_limit = {16 << 20}",
)
_SETTINGS = (
    "SET idle_in_transaction_session_timeout = '10min'",
    "SET timezone = 'UTC'",
)


class Transactions:
    """A pool of connections to one database, which any thread may use."""

    def __init__(self, url: str) -> None:
        parsed = parse(url)
        self.shown = shown(parsed)
        self.engine = _engine(parsed)
        # SQLite has one writer at a time, and waits for another by looking again and
        # again; threads wait for each other here.
        self._writer: AbstractContextManager[object] = (
            Lock() if self.engine.dialect.name == "sqlite" else nullcontext()
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read in a transaction of one's own."""
        with reported(self.shown), self.engine.connect() as link, link.begin():
            yield link

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write in a transaction, which an exception rolls back."""
        with reported(self.shown), self._writer, self.engine.connect() as link:
            link.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            with link.begin():
                yield link

    def copy(self, path: Path) -> bool:
        """Write all of it, as it is at one moment, to a new file of SQLite.

        Return False for PostgreSQL, which has programs of its own for that.
        """
        if self.engine.dialect.name != "sqlite":
            return False
        files.touch(path)  # for its owner alone
        with reported(self.shown), self.engine.connect() as link:
            link.execution_options(**{_BEGIN: ""})
            link.exec_driver_sql("VACUUM INTO ?", (str(path),))
        return True

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def parse(url: str) -> URL:
    """Return the URL of a store; raise ConfigError for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            "the store's URL cannot be read; write sqlite:////FOLDER/store.sqlite or"
            " postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    if parsed.drivername in _POSTGRESQL:
        if find_spec("psycopg") is None:
            raise ConfigError(
                "the store is on PostgreSQL, for which psycopg is missing:"
                " in rai's clone, pip install '.[postgresql]'"
            )
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername != "sqlite":
        raise ConfigError(
            f"a store cannot be on {parsed.drivername}: use sqlite or postgresql"
        )
    if not parsed.database or parsed.database.startswith((":", "file:")):
        raise ConfigError(
            "the store's URL names no file; write sqlite:////FOLDER/store.sqlite"
        )
    return parsed


def shown(url: URL) -> str:
    """Return a URL without its password; of SQLite only the file."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """Return the file of a store on SQLite, None for another."""
    return Path(str(url.database)) if url.drivername == "sqlite" else None


def rollback(link: Connection) -> None:
    """Undo what this transaction did so far, and end it."""
    if (transaction := link.get_transaction()) is not None:
        transaction.rollback()


def insert(link: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return the database's own INSERT, which can do something on a conflict."""
    if link.dialect.name == "sqlite":
        return sqlite.insert(table)
    return postgresql.insert(table)


@contextmanager
def reported(where: str) -> Iterator[None]:
    """Raise RaiError for the database's own errors; no value is quoted."""
    try:
        yield
    except TimeoutError as error:
        text = f"the store {where} has no connection free"
        raise BusyError(text, advice=AGAIN) from error
    except DBAPIError as error:
        cause = str(error.orig).strip().partition("\n")[0] or type(error).__name__
        if isinstance(error, OperationalError) and _waited(error):
            text = f"the store {where} is in use: {cause}"
            raise BusyError(text, advice=AGAIN) from error
        # What may be over soon is asked for again, as it is while others write.
        kind = BusyError if _passing(error) else RaiError
        raise kind(
            f"the store {where} cannot be used: {cause}",
            advice="`rai server doctor` shows whether it can be read and written.",
        ) from error
    except SQLAlchemyError as error:
        raise RaiError(f"the store {where}: {type(error).__name__}") from error


def _waited(error: OperationalError) -> bool:
    """Whether others held a lock for too long."""
    state = getattr(error.orig, "sqlstate", None)
    return state in ("55P03", "40P01") or str(error.orig) == "database is locked"


def _passing(error: DBAPIError) -> bool:
    """Whether the disk is full, or the database away, restarting or overcharged."""
    if not isinstance(error, OperationalError):
        return False
    state = getattr(error.orig, "sqlstate", "")
    if state == "":  # SQLite's errors have none
        return str(error.orig) == "database or disk is full"
    # What PostgreSQL's driver notices is None: nobody answers, or left.
    return state is None or state[:2] in ("08", "53") or state[:3] == "57P"


def _engine(url: URL) -> Engine:
    # A statement's values hold secrets, which no message or trace may quote.
    if (path := sqlite_file(url)) is None:
        engine = create_engine(
            url,
            hide_parameters=True,
            pool_pre_ping=True,  # the database may have been restarted
            pool_timeout=BUSY_S,
            pool_size=5,
            max_overflow=15,
            # Without an encoding a database of SQL_ASCII (initdb's choice in the locale
            # C) answers with bytes.
            connect_args={"connect_timeout": CONNECT_S, "client_encoding": "utf8"},
        )
        event.listen(engine, "connect", _set_postgresql)
        return engine
    try:
        files.touch(path)  # readable by its owner alone, and so are SQLite's own beside
    except OSError as error:
        raise RaiError(files.problem(error)) from error
    engine = create_engine(
        url,
        hide_parameters=True,
        pool_timeout=BUSY_S,
        pool_size=8,
        max_overflow=56,
        connect_args={"timeout": BUSY_S},
    )
    event.listen(engine, "connect", _set_sqlite)
    event.listen(engine, "begin", _begin)
    return engine


def _set_postgresql(made: Any, _: object) -> None:  # noqa: ANN401 - the driver's own
    with made.cursor() as cursor:
        for setting in (*_SETTINGS, f"SET lock_timeout = {int(1000 * BUSY_S)}"):
            cursor.execute(setting)
    made.commit()


def _set_sqlite(made: Any, _: object) -> None:  # noqa: ANN401 - the driver's own
    made.isolation_level = None  # ``_begin`` begins transactions
    for pragma in _PRAGMAS:
        made.execute(f"PRAGMA {pragma}")


def _begin(link: Connection) -> None:
    """Begin as a writer at once: one that reads first may find that it came too late.

    SQLite refuses such a transaction without waiting.
    """
    if words := link.get_execution_options().get(_BEGIN, "BEGIN"):
        link.exec_driver_sql(words)
