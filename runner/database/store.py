"""A store: its parts as one, opened by its URL at the newest schema."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from runner.core.errors import RaiError
from runner.database.accounts import Accounts
from runner.database.connections import VERSION_TABLE, Transactions
from runner.database.runs import Runs

MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = 0x726169  # any number of ours; PostgreSQL's advisory locks have no names


class Store(Accounts, Runs):
    """What a server remembers, on SQLite or on PostgreSQL.

    Each call is one transaction; any thread may call. Times are seconds since 1970, and
    are given by the caller.
    """


def open_store(url: str, *, upgrade: bool = True) -> Store:
    """Open a store; one that is empty is made, and an older one gets today's schema.

    Without ``upgrade`` an older one is refused: another rai may serve it.

    ``url`` is such as ``sqlite:////folder/store.sqlite`` or
    ``postgresql://user:password@host/database``. Raise ConfigError for another, and
    RaiError for a store of a newer schema, or for one that cannot be used.
    """
    store = Store(url)
    try:
        prepare(store, upgrade=upgrade)
    except BaseException:
        store.close()
        raise
    return store


def newest() -> str:
    """Return the revision that this rai reads and writes."""
    versions = (MIGRATIONS / "versions").glob("[0-9]*.py")
    return max(path.name[:4] for path in versions)


def prepare(store: Transactions, *, upgrade: bool = True) -> None:
    """Bring a store to the newest schema, in one transaction; an empty one is made.

    Raise RaiError for a store that is newer, or older without ``upgrade``, or a
    database that holds something else.
    """
    with store.reading() as link:
        if revision_at(link) == newest():
            return
    with store.writing() as link:
        if link.dialect.name == "postgresql":  # of SQLite a writer is alone anyway
            link.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = revision_at(link)  # another process may have been quicker
        _refuse_others(link, found, store.shown)
        if found and not upgrade and found != newest():
            raise RaiError(
                f"the store {store.shown} has the schema {found}, older than this"
                f" rai's ({newest()}): stop its server, and start it with this rai",
                advice="",
            )
        if found != newest():
            migrate(link)


def revision_at(link: Connection) -> str:
    """Return the revision of a connected store, "" for an empty one."""
    if not inspect(link).has_table(VERSION_TABLE):
        return ""
    found = link.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return str(found or "")


def _refuse_others(link: Connection, found: str, where: str) -> None:
    """Raise RaiError for a newer store, or a database with tables of others."""
    if found > newest():
        raise RaiError(
            f"the store {where} has the schema {found}, which is newer than this rai"
            f" knows ({newest()}): install the rai that last used it, or a newer one",
            advice="",
        )
    if not found and (tables := inspect(link).get_table_names()):
        raise RaiError(
            f"the database {where} holds tables that are not rai's, such as"
            f" {tables[0]}: give rai a database of its own",
            advice="",
        )


def migrate(link: Connection) -> None:
    """Bring a connected store to the newest revision, in its transaction."""
    # Loaded when it is needed, as it costs a server memory for as long as that lives.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = link
    command.upgrade(config, "head")
