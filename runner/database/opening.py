"""Open a store by its URL."""

from __future__ import annotations

from runner.database import schema
from runner.database.accounts import Accounts
from runner.database.acts import Acts
from runner.database.base import Store
from runner.database.run_lists import RunLists
from runner.database.run_queue import RunQueue
from runner.database.upload_rows import Uploads


class SqlStore(Accounts, Uploads, RunQueue, RunLists, Acts, Store):
    """A store on SQLite or on PostgreSQL."""


def open_store(url: str) -> SqlStore:
    """Open a store; one that is empty is made.

    ``url`` is such as ``sqlite:////folder/store.sqlite`` or
    ``postgresql://user:password@host/database``. Raise ConfigError for another, and
    RaiError for a store of another schema, which `rai server upgrade` mends if it is
    older, or for one that cannot be used.
    """
    store = SqlStore(url)
    try:
        schema.prepare(store)
    except BaseException:
        store.close()
        raise
    return store
