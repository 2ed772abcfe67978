"""What a store does when its database is in use, full or restarted."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from runner.core.errors import BusyError, RaiError
from runner.server.database import Store, connections, open_store
from runner.server.database.accounts import AuditEntry
from tests.kit.postgres import absent, cluster, database
from tests.kit.store_rows import NOW, new_store, run

FIELD = '"hunter2-and-a-word"'


@pytest.mark.postgresql
def test_a_database_without_an_encoding_serves_too(postgresql_server: str):
    options = "TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
    with database(postgresql_server, options) as url:
        store = open_store(url)
        store.drain("ein Käfer")
        assert store.drained() == "ein Käfer"
        store.close()


def test_a_store_that_others_hold_for_long_is_in_use(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connections, "BUSY_S", 0.1)
    store, other = open_store(url), open_store(url)
    store.add_run(run())
    with other.writing() as link:
        link.execute(text("UPDATE server SET drained = 'held'"))
        with pytest.raises(BusyError, match="is in use: "):
            store.claim("0123456789", 0)
        assert [row.id for row in store.unfinished()] == ["0123456789"]
    assert store.claim("0123456789", 0)
    assert store.drained() == "held"
    store.close()
    other.close()


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path):
    store = new_store(tmp_path, Store)
    store.add_run(run())
    with store.reading() as link:  # the only connection so far
        pages = link.exec_driver_sql("PRAGMA page_count").scalar()
        link.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(BusyError, match="database or disk is full"):
        store.add_run(run("full", parcel=bytes(1 << 20)))
    assert store.run("full") is None
    assert store.changes() == 1
    store.claim("0123456789", 0)
    assert store.changes() == 2
    store.close()


@pytest.mark.postgresql
def test_a_postgresql_that_is_away_is_asked_again_later():
    if why := absent():
        pytest.skip(why)
    with cluster() as url:
        store = open_store(url)
        assert store.unfinished() == []
    with pytest.raises(BusyError, match="cannot be used"):
        store.unfinished()
    store.close()


@pytest.mark.postgresql
def test_a_postgresql_that_was_restarted_is_connected_to_again(postgresql_url: str):
    store, other = open_store(postgresql_url), open_store(postgresql_url)
    store.audit(AuditEntry(NOW, "ada", "before"))
    with other.writing() as link:
        ended = link.execute(
            text(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        assert ended.scalars().all() == [True]
    store.audit(AuditEntry(NOW, "ada", "after"))
    assert [act.act for act in store.audited()] == ["after", "before"]
    store.close()
    other.close()


def test_an_error_quotes_no_value(url: str):
    store = open_store(url)
    with store.writing() as link:
        link.execute(text("DROP TABLE parcels"))
    with pytest.raises(RaiError, match="parcels") as told:
        store.add_run(run(secrets=FIELD))
    cause: BaseException | None = told.value
    while cause is not None:
        assert FIELD not in str(cause)
        cause = cause.__cause__
    assert "\n" not in str(told.value)
    assert store.changes() == 0
    store.close()


def test_forgotten_secrets_are_not_in_the_file(tmp_path: Path):
    store = new_store(tmp_path, Store)
    for name in ("starts", "ends", "cancelled", "waits"):
        store.add_run(run(name, secrets=f"{FIELD}{name}"))
    store.claim("starts", 0)
    store.started("starts", NOW)
    store.ended("ends", NOW, None)
    store.ask_cancel("cancelled", NOW, "")
    store.close()
    kept = (tmp_path / "store.sqlite").read_bytes()
    assert f"{FIELD}waits".encode() in kept
    for name in ("starts", "ends", "cancelled"):
        assert f"{FIELD}{name}".encode() not in kept
    assert kept.count(FIELD.encode()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["store.sqlite"]
