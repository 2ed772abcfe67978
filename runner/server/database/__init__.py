"""What a server remembers: people, uploads, its queue, submissions, acts of staff.

A ``Store`` has one schema on SQLite and on PostgreSQL. What a run says is never in it:
that is in the run's folder.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from runner.core.errors import RaiError
from runner.server.database import tables
from runner.server.database.accounts import Accounts
from runner.server.database.runs import Runs
from runner.server.database.submissions import Submissions

MIGRATIONS = Path(__file__).parent / "migrations"
VERSION_TABLE = "rai_schema"
"""Where Alembic keeps the revision of a store."""

_LOCK = 0x726169  # any number of ours; PostgreSQL's advisory locks have no names


class Store(Accounts, Runs, Submissions):
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
        with store.reading() as link:
            found = revision_at(link)
        if found != newest():
            _prepare(store, upgrade)
    except BaseException:
        store.close()
        raise
    return store


def newest() -> str:
    """Return the revision that this rai reads and writes."""
    return max(path.name[:4] for path in MIGRATIONS.glob("[0-9]*.py"))


def revision_at(link: Connection) -> str:
    """Return the revision of a connected store, "" for an empty one."""
    if not inspect(link).has_table(VERSION_TABLE):
        return ""
    found = link.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    return str(found or "")


def _prepare(store: Store, upgrade: bool) -> None:
    """Bring a store to the newest schema, in one transaction; an empty one is made.

    Raise RaiError for a store that is newer, or older without ``upgrade``, or a
    database that holds something else.
    """
    with store.writing() as link:
        if link.dialect.name == "postgresql":  # of SQLite a writer is alone anyway
            link.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        found = revision_at(link)
        if found == newest():  # another process was quicker
            return
        schema = f"the store {store.shown} has the schema {found}"
        if found > newest():
            raise RaiError(
                f"{schema}, which is newer than this rai knows ({newest()}): install"
                " the rai that last used it, or a newer one",
                advice="",
            )
        if found and not upgrade:
            raise RaiError(
                f"{schema}, older than this rai's ({newest()}): stop its server, and"
                " start it with this rai",
                advice="",
            )
        if not found and (others := inspect(link).get_table_names()):
            raise RaiError(
                f"the database {store.shown} holds tables that are not rai's, such as"
                f" {others[0]}: give rai a database of its own",
                advice="",
            )
        _migrate(link, found)


def _migrate(link: Connection, found: str) -> None:
    """Bring a connected store of this revision to the newest, in its transaction."""
    # Loaded when it is needed, as it costs a server memory for as long as that lives.
    from alembic.migration import MigrationContext
    from alembic.operations import Operations
    from alembic.script import ScriptDirectory

    folder = str(MIGRATIONS)
    scripts = ScriptDirectory(folder, version_locations=[folder])
    context = MigrationContext.configure(link, opts={"version_table": VERSION_TABLE})
    if found:
        steps = [*scripts.iterate_revisions("head", found)]
        with Operations.context(context):
            for step in reversed(steps):
                step.module.upgrade()
    else:
        tables.metadata.create_all(link)
        link.execute(tables.server.insert().values(id=1, changes=0, drained=""))
    context.stamp(scripts, "head")
