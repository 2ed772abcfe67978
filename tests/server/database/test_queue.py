"""Runs in the queue and their uploads, on each database."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.errors import NotAllowedError
from runner.core.wire import QueueState
from runner.server.database import Store
from runner.server.database.runs import TeamUse
from runner.server.scheduling import GpuDay, QueueRow
from tests.kit.store_rows import DAY_S, NOW, run

WAITING, STARTING = QueueState.WAITING, QueueState.STARTING
RUNNING, ENDED = QueueState.RUNNING, QueueState.ENDED


def state(store: Store, name: str = "0123456789") -> QueueRow:
    row = store.run(name)
    assert row is not None
    return row


def begun(store: Store, name: str) -> None:
    assert store.claim(name, 0)
    store.started(name, NOW + 1)


def test_a_run_that_is_added_comes_back_as_it_was_and_is_added_once(store: Store):
    given = run(gpus=2, priority=-3, project="net \u2731 \U0001f600")
    added, new = store.add_run(given)
    assert new
    assert added == replace(given, changed=added.changed)
    assert store.add_run(run(team="blue", digest="other")) == (added, False)
    assert store.run(given.id) == added
    assert [row.id for row in store.runs()] == [given.id]
    assert store.run("none") is None
    assert store.run("\0") is None


def test_a_request_that_is_too_large_is_refused(store: Store):
    for large in (run(parcel=b"x" * (4 << 20) + b"x"), run(secrets="é" * (3 << 20))):
        with pytest.raises(NotAllowedError, match="over 4 MiB"):
            store.add_run(large)
    assert store.run("0123456789") is None
    assert store.add_run(run(parcel=b"\0\xff" * (2 << 20)))[1]


def test_a_run_goes_from_waiting_to_its_end_once(store: Store):
    store.add_run(run())
    store.started("0123456789", NOW)
    assert state(store).state is WAITING
    assert not store.claim("0123456789", 1)
    assert not store.claim("none", 0)
    assert store.claim("0123456789", 0)
    assert not store.claim("0123456789", 0)
    assert not store.claim("0123456789", 1)
    assert (state(store).state, state(store).attempt) == (STARTING, 1)
    assert state(store).secrets
    store.started("0123456789", NOW + 5)
    row = state(store)
    assert (row.state, row.started_at, row.secrets) == (RUNNING, NOW + 5, "")
    assert store.ended("0123456789", NOW + 9, Reason.DONE, "all well", 77)
    row = state(store)
    assert (row.state, row.ended_at, row.reason) == (ENDED, NOW + 9, Reason.DONE)
    assert (row.why, row.bytes, row.cancelled) == ("all well", 77, False)
    assert row.parcel == b""
    assert not store.ended("0123456789", NOW + 10, Reason.INTERNAL, "again", 5)
    store.started("0123456789", NOW + 11)
    assert state(store) == row
    assert not store.ended("none", NOW, None)


def test_a_run_of_which_nothing_ran_waits_again_or_ends_as_cancelled(store: Store):
    store.add_run(run())
    assert not store.unclaim("0123456789", 0, "too early")
    store.claim("0123456789", 0)
    assert not store.unclaim("0123456789", 0, "another attempt")
    assert store.unclaim("0123456789", 1, "the host restarted")
    row = state(store)
    assert (row.state, row.attempt, row.why) == (WAITING, 1, "the host restarted")
    assert row.secrets
    assert not store.unclaim("0123456789", 1, "twice")
    assert store.claim("0123456789", 1)
    store.ask_cancel("0123456789", NOW + 3, "by ada")
    assert not store.unclaim("0123456789", 2, "the host restarted")
    row = state(store)
    assert (row.state, row.reason) == (ENDED, Reason.CANCELLED)
    assert (row.ended_at, row.why, row.secrets) == (NOW + 3, "by ada", "")
    store.add_run(run("runs"))
    begun(store, "runs")
    assert not store.unclaim("runs", 1, "too late")
    assert state(store, "runs").state is RUNNING


def test_a_run_that_waits_is_cancelled_at_once_and_one_that_runs_is_asked_to_end(
    store: Store,
):
    store.add_run(run("waits"))
    row = store.ask_cancel("waits", NOW + 1, "by ada")
    assert row == state(store, "waits")
    assert (row.state, row.reason, row.cancelled) == (ENDED, Reason.CANCELLED, True)
    assert (row.ended_at, row.secrets) == (NOW + 1, "")
    assert not store.claim("waits", 0)
    assert store.ask_cancel("none", NOW, "") is None

    store.add_run(run("runs"))
    begun(store, "runs")
    row = store.ask_cancel("runs", NOW + 1, "by ada")
    assert row is not None
    assert (row.state, row.cancelled, row.ended_at) == (RUNNING, True, None)
    assert store.ask_cancel("runs", NOW + 2, "again") == row
    store.ended("runs", NOW + 3, Reason.CANCELLED)
    ended = state(store, "runs")
    assert store.ask_cancel("runs", NOW + 4, "too late") == ended


def test_each_change_of_a_run_grows_the_number_and_nothing_else_does(store: Store):
    name = "0123456789"
    seen = [store.changes()]
    for change, *given in (
        (store.add_run, run()),
        (store.wait_reason, {name: "the GPU is in use"}),
        (store.claim, name, 0),
        (store.unclaim, name, 1, "again"),
        (store.claim, name, 1),
        (store.started, name, NOW),
        (store.ask_cancel, name, NOW, "by ada"),
        (store.ended, name, NOW, None),
        (store.removed, [name]),
    ):
        change(*given)
        seen.append(store.changes())
        assert state(store).changed == seen[-1]
    assert seen == sorted(set(seen))
    for nothing, *given in (
        (store.add_run, run()),
        (store.wait_reason, {name: "it has ended", "none": "no"}),
        (store.claim, name, 2),
        (store.unclaim, name, 2, ""),
        (store.started, name, NOW),
        (store.ask_cancel, name, NOW, ""),
        (store.ended, name, NOW, None),
        (store.check,),
    ):
        nothing(*given)
        assert store.changes() == seen[-1]


def test_reasons_are_written_where_they_changed(store: Store):
    for name in ("a", "b", "c", "d", "e"):
        store.add_run(run(name))
    for name in ("c", "d", "e"):
        store.claim(name, 0)
    store.ask_cancel("d", NOW, "by ada")
    store.started("e", NOW)
    store.wait_reason(dict.fromkeys("cde", "Slurm has no room"))
    assert [state(store, n).why for n in "cde"] == ["Slurm has no room", "by ada", ""]
    store.wait_reason({"a": "first", "b": "second"})
    assert [state(store, name).why for name in "ab"] == ["first", "second"]
    before = state(store, "a")
    store.wait_reason({"a": "first", "b": "third"})
    assert state(store, "a") == before
    assert state(store, "b").why == "third"
    count = store.changes()
    store.wait_reason({})
    assert store.changes() == count


def test_pages_of_runs_follow_one_another(store: Store):
    for number in range(25):
        team = "red" if number % 5 else "blue"
        # Several at once, so that the time alone is no order.
        store.add_run(run(f"{number:02}", team, queued_at=NOW + number // 3))
    store.claim("24", 0)
    whole = [row.id for row in store.runs()]
    assert whole == [f"{number:02}" for number in reversed(range(25))]
    for team, kind in (
        (None, None),
        ("red", None),
        ("red", WAITING),
        (None, WAITING),
        ("none", None),
    ):
        wanted = [row.id for row in store.runs(team, kind, limit=1000)]
        found: list[str] = []
        while page := store.runs(team, kind, found[-1] if found else "", 4):
            found += [row.id for row in page]
        assert found == wanted
    assert len(store.runs("red", WAITING, limit=1000)) == 19
    assert store.runs(after="none") == []


def test_listings_have_their_runs_in_order_without_parcels_and_secrets(store: Store):
    for name, later in (("a", 5), ("b", 3), ("c", 3), ("d", 9), ("e", 0)):
        store.add_run(run(name, queued_at=NOW + later))
    store.claim("a", 0)
    for name, at in (("d", NOW), ("c", NOW + 10), ("e", NOW + 5)):
        store.claim(name, 0)
        store.started(name, at)
    store.ended("e", NOW + 20, None)
    for found, names in (
        (store.runs(), "dacbe"),
        (store.unfinished(), "bcad"),
        (store.started_since(NOW + 5), "ec"),
        (store.started_since(NOW + 11), ""),
        (store.removable(NOW + 21), "e"),
    ):
        assert "".join(row.id for row in found) == names
        assert all((row.parcel, row.secrets) == (b"", "") for row in found)


def test_a_team_had_gpus_for_as_long_as_its_runs_took_or_take(store: Store):
    for n, (gpus, began, took) in enumerate(
        [(1, -2 * DAY_S, 60.0), (2, -100.0, 60.0), (1, -30.0, None), (0, -9.0, 5.0)]
    ):
        store.add_run(run(f"{n:010x}", gpus=gpus))
        store.claim(f"{n:010x}", 0)
        store.started(f"{n:010x}", NOW + began)
        if took is not None:
            store.ended(f"{n:010x}", NOW + began + took, Reason.DONE)
    store.add_run(run("ffffffffff", gpus=1))
    assert store.gpu_use(NOW - DAY_S, NOW) == {"red": GpuDay(150.0, NOW - 100.0)}


def test_a_team_has_what_waits_runs_and_is_kept(store: Store):
    assert store.use("red", 0) == TeamUse()
    for number in range(6):
        store.add_run(run(str(number), queued_at=NOW + number))
    store.add_run(run("other", "blue"))
    begun(store, "0")
    store.ended("0", NOW, Reason.DONE, kept_bytes=1 << 40)
    begun(store, "1")
    store.claim("2", 0)
    assert store.use("red", NOW + 1) == TeamUse(3, 2, 5, NOW + 1, 1 << 40)
    store.add_upload("red", "5" * 64, 500, NOW)
    store.add_upload("red", "6" * 64, 70, NOW)
    store.add_upload("blue", "5" * 64, 9, NOW)
    assert store.use("red", NOW + 9).bytes == (1 << 40) + 570
    store.removed(["0", "1", "none"])
    store.removed(["0"])
    assert store.use("red", NOW + 9) == TeamUse(3, 2, 0, None, 570)
    assert not state(store, "1").removed


def test_ended_runs_are_removable_until_they_are_removed(store: Store):
    for name, at in (("0", 30), ("1", 10), ("2", 20), ("3", 40), ("staff", 0)):
        team, role = ("red", "student") if name != "staff" else ("blue", "staff")
        store.add_run(run(name, team, role=role))
        store.ended(name, NOW + at, Reason.DONE, kept_bytes=1)
    store.add_run(run("waits"))

    def removable(*limit: int, **of: str) -> list[str]:
        return [row.id for row in store.removable(NOW + 40, *limit, **of)]

    assert removable() == ["staff", "1", "2", "0"]
    assert removable(1) == removable(role="staff") == ["staff"]
    assert removable(team="red") == ["1", "2", "0"]
    assert removable(team="red", role="staff") == []
    store.removed(["1", "2", "staff", *(f"none {number}" for number in range(1200))])
    assert removable() == ["0"]
    gone = state(store, "1")
    assert gone.removed
    assert gone.reason is Reason.DONE


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

    def fails(team: str, sha256: str) -> None:
        raise OSError(sha256)

    with pytest.raises(OSError, match="d"):
        store.remove_uploads(NOW + 101, fails)
    assert removed(store, NOW + 101) == ["redd"]
