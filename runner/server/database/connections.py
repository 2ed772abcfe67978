"""Transactions on SQLite and PostgreSQL, which behave alike here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

from runner.core.errors import BusyError, ConfigError, RaiError
from runner.system import files

BUSY_S = 30.0
"""How long a call waits for others that write, or for a connection of the pool."""

CONNECT_S = 10

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
_WAITED = ("55P03", "40P01")
"""PostgreSQL's states of who waited for a lock for too long, or for each other."""

_AWAY = ("08", "53", "57P")
"""How its states begin while it is away, restarting or overcharged."""


class Transactions:
    """A pool of connections to one database, which any thread may use."""

    def __init__(self, url: str) -> None:
        parsed = _parse(url)
        one_file = parsed.drivername == "sqlite"
        self.shown = _shown(parsed)
        self.engine = _sqlite(parsed) if one_file else _postgresql(parsed)
        # SQLite has one writer at a time, and waits for another by looking again and
        # again; threads wait for each other here.
        self._writer: AbstractContextManager[object] = (
            Lock() if one_file else nullcontext()
        )

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read in a transaction of one's own."""
        with _reported(self.shown), self.engine.connect() as link, link.begin():
            yield link

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write in a transaction, which an exception rolls back."""
        with _reported(self.shown), self._writer, self.engine.connect() as link:
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
        with _reported(self.shown), self.engine.connect() as link:
            link.execution_options(**{_BEGIN: ""})
            link.exec_driver_sql("VACUUM INTO ?", (str(path),))
        return True

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def put(
    link: Connection,
    table: Table,
    row: Mapping[str, object],
    change: Mapping[str, object] = {},
) -> bool:
    """Add a row, or change the one of its primary key; return whether either was done.

    Without a ``change`` a row that is there stays as it is.
    """
    dialect = sqlite if link.dialect.name == "sqlite" else postgresql
    adding, key = dialect.insert(table).values(**row), list(table.primary_key)
    if change:
        adding = adding.on_conflict_do_update(index_elements=key, set_=change)
    else:
        adding = adding.on_conflict_do_nothing(index_elements=key)
    return link.execute(adding.returning(*key)).first() is not None


def _parse(url: str) -> URL:
    """Return the URL of a store; raise ConfigError for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            "the store's URL cannot be read; write sqlite:////FOLDER/store.sqlite or"
            " postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
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


def _shown(url: URL) -> str:
    """Return a URL without its password; of SQLite only the file."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


@contextmanager
def _reported(where: str) -> Iterator[None]:
    """Raise RaiError for the database's own errors; no value is quoted.

    What may be over soon is a BusyError, so that it is asked for again.
    """
    again = "Try again in a while."
    try:
        yield
    except TimeoutError as error:
        text = f"the store {where} has no connection free"
        raise BusyError(text, advice=again) from error
    except DBAPIError as error:
        cause = str(error.orig).strip().partition("\n")[0] or type(error).__name__
        passing = isinstance(error, OperationalError)
        # SQLite's errors have no state. None is what PostgreSQL's driver notices by
        # itself: nobody answers, or left.
        state = getattr(error.orig, "sqlstate", "")
        if passing and (state in _WAITED or cause == "database is locked"):
            text = f"the store {where} is in use: {cause}"
            raise BusyError(text, advice=again) from error
        away = state is None or state.startswith(_AWAY)
        full = cause == "database or disk is full"
        kind = BusyError if passing and (away or full) else RaiError
        raise kind(
            f"the store {where} cannot be used: {cause}",
            advice="`rai server doctor` shows whether it can be read and written.",
        ) from error
    except SQLAlchemyError as error:
        raise RaiError(f"the store {where}: {type(error).__name__}") from error


def _postgresql(url: URL) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,  # they hold secrets, which no message or trace may quote
        pool_pre_ping=True,  # the database may have been restarted
        pool_timeout=BUSY_S,
        pool_size=5,
        max_overflow=15,
        # Without an encoding a database of SQL_ASCII (initdb's choice in the locale C)
        # answers with bytes.
        connect_args={"connect_timeout": CONNECT_S, "client_encoding": "utf8"},
    )
    event.listen(engine, "connect", _set_postgresql)
    return engine


def _sqlite(url: URL) -> Engine:
    try:
        # Readable by its owner alone, and so are SQLite's own files beside it.
        files.touch(Path(str(url.database)))
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
