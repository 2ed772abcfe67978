"""Uploads, acts of staff, and whether a store is well, on each database."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from runner.core.errors import RaiError
from runner.database.base import AuditEntry
from runner.database.opening import SqlStore, open_store
from tests.runner.database.rows import NOW, run, upload


def test_the_same_file_of_a_team_has_one_upload(store: SqlStore):
    first = store.add_upload(upload("a"))
    assert first == upload("a")
    store.upload_grew("a", 400, NOW + 1, whole=False)
    again = store.add_upload(upload("b", changed_at=NOW + 9))
    assert again == upload("a", offset=400, changed_at=NOW + 9)
    assert store.upload("red", "b") is None
    other = store.add_upload(upload("c", "blue"))
    assert other.id == "c"
    large = store.add_upload(upload("d", sha256="7" * 64, size=1 << 40))
    assert store.upload("red", "d") == large


def test_an_upload_is_its_teams_alone(store: SqlStore):
    store.add_upload(upload("a"))
    assert store.upload("red", "a") == upload("a")
    assert store.upload("blue", "a") is None
    assert store.upload("red", "none") is None


def test_an_upload_grows_and_is_whole(store: SqlStore):
    store.add_upload(upload("a"))
    store.upload_grew("a", 1000, NOW + 2, whole=True)
    wanted = upload("a", offset=1000, whole=True, changed_at=NOW + 2)
    assert store.upload("red", "a") == wanted
    store.upload_grew("none", 5, NOW, whole=False)
    store.remove_upload("a")
    store.remove_upload("a")
    assert store.upload("red", "a") is None


def test_an_upload_is_stale_when_nothing_needs_it(store: SqlStore):
    for number, name in enumerate("abcd"):
        store.add_upload(upload(name, sha256=name, changed_at=NOW + number))
    store.add_run(run("1", upload="a"))
    store.add_run(run("2", upload="b"))
    store.add_run(run("3", upload="b"))
    store.claim("2", 0)
    store.ended("3", NOW, None)
    assert [row.id for row in store.stale_uploads(NOW + 3)] == ["c"]
    store.started("2", NOW)
    store.ended("1", NOW, None)
    assert [row.id for row in store.stale_uploads(NOW + 9)] == ["a", "b", "c", "d"]


def test_a_drained_store_says_why_until_it_is_not(store: SqlStore):
    assert store.drained() == ""
    store.drain("new driver on Monday")
    assert store.drained() == "new driver on Monday"
    store.drain("")
    assert store.drained() == ""


def test_acts_are_kept_the_newest_first(store: SqlStore):
    acts = [AuditEntry(NOW, "ada", f"act {number}", "red") for number in range(5)]
    for act in acts:
        store.audit(act)
    odd = AuditEntry(NOW - 99, "ada\0", "revoke", "\ud800")
    store.audit(odd)
    assert store.audited(3) == [
        replace(odd, who="ada\ufffd", about="?"),
        *reversed(acts[3:]),
    ]
    assert len(store.audited()) == 6


def test_a_store_that_can_be_read_and_written_is_well(store: SqlStore):
    store.check()
    assert store.changes() == 0


def test_a_check_writes(tmp_path: Path):
    store = open_store(f"sqlite:///{tmp_path}/store.sqlite")
    log = tmp_path / "store.sqlite-wal"
    store.drain("")
    before = log.stat().st_size
    store.check()
    assert log.stat().st_size > before
    with store.writing() as link:
        link.execute(text("DROP TABLE server"))
    with pytest.raises(RaiError, match="no such table: server"):
        store.check()
    store.close()
