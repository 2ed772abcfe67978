"""Uploads, acts of staff, and whether a store is well, on each database."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from runner.core.errors import RaiError
from runner.database.base import AuditEntry
from runner.database.store import Store, open_store
from tests.runner.database.rows import NOW, run


def test_an_upload_is_its_teams_alone_and_there_once(store: Store):
    store.add_upload("red", "a", 1 << 40, NOW)
    store.add_upload("red", "a", 1 << 40, NOW)
    store.add_upload("blue", "b", 7, NOW)
    assert store.upload("red", "a", NOW) == 1 << 40
    assert store.upload("red", "b", NOW) is None
    assert store.upload("blue", "a", NOW) is None
    assert store.use("red", 0).bytes == 1 << 40


def removed(store: Store, before: float) -> list[str]:
    gone: list[str] = []
    count = store.remove_uploads(before, lambda team, name: gone.append(team + name))
    assert count == len(gone)
    return sorted(gone)


def test_an_upload_goes_when_nothing_needs_it(store: Store):
    for number, name in enumerate("abcd"):
        store.add_upload("red", name, 5, NOW + number)
    store.add_upload("blue", "a", 5, NOW)
    store.add_run(run("1", sha256="a"))
    store.add_run(run("2", sha256="b"))
    store.add_run(run("3", sha256="b"))
    store.claim("2", 0)
    store.ended("3", NOW, None)
    assert removed(store, NOW + 3) == ["bluea", "redc"]
    store.started("2", NOW)
    store.ended("1", NOW, None)
    store.upload("red", "d", NOW + 99)
    assert removed(store, NOW + 99) == ["reda", "redb"]
    store.add_upload("red", "d", 5, NOW + 100)
    assert removed(store, NOW + 100) == []
    assert removed(store, NOW + 101) == ["redd"]


def test_an_upload_whose_file_does_not_go_stays(store: Store):
    def fails(team: str, sha256: str) -> None:
        raise OSError(sha256)

    store.add_upload("red", "a", 5, NOW)
    with pytest.raises(OSError, match="a"):
        store.remove_uploads(NOW + 1, fails)
    assert store.upload("red", "a", NOW) == 5


def test_a_drained_store_says_why_until_it_is_not(store: Store):
    assert store.drained() == ""
    store.drain("new driver on Monday")
    assert store.drained() == "new driver on Monday"
    store.drain("")
    assert store.drained() == ""


def test_acts_are_kept_the_newest_first(store: Store):
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


def test_a_store_that_can_be_read_and_written_is_well(store: Store):
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
