"""The schema of a store: which one it has, and how it is brought to the newest."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from runner.core.errors import RaiError
from runner.database.connections import VERSION_TABLE, Transactions, parse, sqlite_file

MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = 0x726169  # any number of ours; PostgreSQL's advisory locks have no names


def newest() -> str:
    """Return the revision that this rai reads and writes."""
    return max(known())


def known() -> set[str]:
    """Return every revision that there was up to the newest."""
    return {path.name[:4] for path in (MIGRATIONS / "versions").glob("[0-9]*.py")}


def revision(url: str) -> str:
    """Return the revision of a store, "" for one that is empty or not there."""
    path = sqlite_file(parse(url))
    if path is not None and not path.exists():
        return ""
    store = Transactions(url)
    try:
        with store.reading() as link:
            return revision_at(link)
    finally:
        store.close()


def upgrade(url: str) -> tuple[str, str]:
    """Bring a store to the newest schema; return its revision before and after.

    All steps are one transaction: a store whose upgrade fails stays as it was. Raise
    RaiError for a store that is newer, or for a database that holds something else.
    """
    store = Transactions(url)
    try:
        with store.writing() as link:
            lock(link)
            before = revision_at(link)
            if before != newest():
                refuse_others(link, before, store.shown)
                migrate(link, newest())
            return before, newest()
    finally:
        store.close()


def prepare(store: Transactions) -> None:
    """Make the schema of an empty store; raise RaiError for one that is not newest."""
    with store.reading() as link:
        found = revision_at(link)
    if not found:
        with store.writing() as link:
            lock(link)
            found = revision_at(link)  # another process may have made it
            if not found:
                refuse_others(link, found, store.shown)
                migrate(link, newest())
                return
    if found < newest():
        raise RaiError(
            f"the store {store.shown} has the schema {found}, and this rai needs"
            f" {newest()}: run `rai server upgrade`",
            advice="",
        )
    if found > newest():
        raise _too_new(found, store.shown)


def revision_at(link: Connection) -> str:
    """Return the revision of a connected store, "" for an empty one."""
    if not inspect(link).has_table(VERSION_TABLE):
        return ""
    found = link.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return str(found or "")


def lock(link: Connection) -> None:
    """Let nobody else change the schema during this transaction.

    On SQLite a transaction that writes is alone anyway.
    """
    if link.dialect.name == "postgresql":
        link.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def refuse_others(link: Connection, found: str, where: str) -> None:
    """Raise RaiError for a newer store, or a database with tables of others."""
    if found > newest():
        raise _too_new(found, where)
    if not found and (tables := inspect(link).get_table_names()):
        raise RaiError(
            f"the database {where} holds tables that are not rai's, such as"
            f" {tables[0]}: give rai a database of its own",
            advice="",
        )


def migrate(link: Connection, to: str) -> None:
    """Bring a connected store to a revision, in its transaction."""
    # Loaded when it is needed, as it costs a server memory for as long as that lives.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = link
    command.upgrade(config, to)


def _too_new(found: str, where: str) -> RaiError:
    return RaiError(
        f"the store {where} has the schema {found}, which is newer than this rai knows"
        f" ({newest()}): install the rai that last used it, or a newer one",
        advice="",
    )
