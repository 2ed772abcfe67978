"""Runs in the queue, on each database."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from runner.core.ending import Reason
from runner.core.errors import NotAllowedError
from runner.database.base import QueueRow, TeamUse
from runner.database.store import Store
from runner.scheduling.room import GpuDay
from runner.wire.remote_runs import QueueState
from tests.runner.database.rows import DAY_S, NOW, run

WAITING, STARTING = QueueState.WAITING, QueueState.STARTING
RUNNING, ENDED = QueueState.RUNNING, QueueState.ENDED


def state(store: Store, name: str = "0123456789") -> QueueRow:
    row = store.run(name)
    assert row is not None
    return row


def begun(store: Store, name: str) -> None:
    assert store.claim(name, 0)
    store.started(name, NOW + 1)


def test_a_run_that_is_added_comes_back_as_it_was(store: Store):
    given = run(gpus=2, priority=-3, project="net \u2731 \U0001f600")
    added, new = store.add_run(given)
    assert new
    assert added == replace(given, changed=added.changed)
    assert store.run(given.id) == added
    assert store.run("none") is None
    assert store.run("\0") is None


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_a_run_that_is_added_twice_is_one_row(store: Store, data: st.DataObject):
    name = data.draw(st.text("0123456789abcdef", min_size=10, max_size=10))
    teams = st.sampled_from(["red", "blue"])
    given_rows = [
        run(name, data.draw(teams), digest=data.draw(st.text(max_size=3)))
        for _ in range(3)
    ]
    earlier = store.run(name)
    answers = [store.add_run(row) for row in given_rows]
    first = earlier or answers[0][0]
    assert [row for row, _ in answers] == [first] * 3
    assert [new for _, new in answers] == [earlier is None, False, False]
    assert [row.id for row in store.runs(limit=10**6)].count(name) == 1


def test_a_run_goes_from_waiting_to_its_end(store: Store):
    store.add_run(run())
    assert store.claim("0123456789", 0)
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


def test_a_claim_is_for_one_attempt_of_a_run_that_waits(store: Store):
    store.add_run(run())
    assert not store.claim("0123456789", 1)
    assert not store.claim("none", 0)
    assert store.claim("0123456789", 0)
    assert not store.claim("0123456789", 0)
    assert not store.claim("0123456789", 1)


def test_a_run_of_which_nothing_ran_waits_again(store: Store):
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
    store.started("0123456789", NOW)
    assert not store.unclaim("0123456789", 2, "too late")
    assert state(store).state is RUNNING


def test_a_run_that_was_cancelled_does_not_wait_again(store: Store):
    store.add_run(run())
    store.claim("0123456789", 0)
    store.ask_cancel("0123456789", NOW + 3, "by ada")
    assert not store.unclaim("0123456789", 1, "the host restarted")
    row = state(store)
    assert (row.state, row.reason) == (ENDED, Reason.CANCELLED)
    assert (row.ended_at, row.why, row.secrets) == (NOW + 3, "by ada", "")


def test_only_a_run_that_starts_can_have_started(store: Store):
    store.add_run(run())
    store.started("0123456789", NOW)
    assert state(store).state is WAITING
    assert state(store).secrets
    begun(store, "0123456789")
    store.ended("0123456789", NOW + 2, None)
    store.started("0123456789", NOW + 3)
    assert state(store).state is ENDED
    assert state(store).started_at == NOW + 1


def test_a_run_ends_once(store: Store):
    store.add_run(run())
    assert store.ended("0123456789", NOW, None, "no engine here")
    assert not store.ended("0123456789", NOW + 1, Reason.DONE, "again", 5)
    row = state(store)
    assert (row.reason, row.why, row.bytes) == (None, "no engine here", 0)
    assert row.secrets == ""
    assert not store.ended("none", NOW, None)


def test_a_run_that_waits_is_cancelled_at_once(store: Store):
    store.add_run(run())
    row = store.ask_cancel("0123456789", NOW + 1, "by ada")
    assert row == state(store)
    assert row is not None
    assert (row.state, row.reason, row.cancelled) == (ENDED, Reason.CANCELLED, True)
    assert (row.ended_at, row.secrets) == (NOW + 1, "")
    assert not store.claim("0123456789", 0)
    assert store.ask_cancel("none", NOW, "") is None


def test_a_run_that_runs_is_asked_to_end(store: Store):
    store.add_run(run())
    begun(store, "0123456789")
    row = store.ask_cancel("0123456789", NOW + 1, "by ada")
    assert row is not None
    assert (row.state, row.cancelled, row.ended_at) == (RUNNING, True, None)
    before = store.changes()
    assert store.ask_cancel("0123456789", NOW + 2, "again") == row
    assert store.changes() == before
    store.ended("0123456789", NOW + 3, Reason.CANCELLED)
    ended = state(store)
    assert store.ask_cancel("0123456789", NOW + 4, "too late") == ended


def test_each_change_of_a_run_grows_the_number_and_nothing_else_does(store: Store):
    seen = [store.changes()]
    for change in (
        lambda: store.add_run(run()),
        lambda: store.wait_reason({"0123456789": "the GPU is in use"}),
        lambda: store.claim("0123456789", 0),
        lambda: store.unclaim("0123456789", 1, "again"),
        lambda: store.claim("0123456789", 1),
        lambda: store.started("0123456789", NOW),
        lambda: store.ask_cancel("0123456789", NOW, "by ada"),
        lambda: store.ended("0123456789", NOW, None),
        lambda: store.removed(["0123456789"]),
    ):
        change()
        seen.append(store.changes())
        assert state(store).changed == seen[-1]
    assert seen == sorted(set(seen))
    for nothing in (
        lambda: store.add_run(run()),
        lambda: store.wait_reason({"0123456789": "it has ended", "none": "no"}),
        lambda: store.claim("0123456789", 2),
        lambda: store.unclaim("0123456789", 2, ""),
        lambda: store.started("0123456789", NOW),
        lambda: store.ask_cancel("0123456789", NOW, ""),
        lambda: store.ended("0123456789", NOW, None),
        lambda: store.check(),
    ):
        nothing()
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


def test_listings_have_no_parcels_and_no_secrets(store: Store):
    for name in ("a", "b", "c"):
        store.add_run(run(name))
    begun(store, "b")
    begun(store, "c")
    store.ended("c", NOW, None)
    for found, names in (
        (store.runs(), "cba"),
        (store.unfinished(), "ab"),
        (store.started_since(0), "bc"),
        (store.removable(NOW + 1), "c"),
    ):
        assert "".join(row.id for row in found) == names
        assert {(row.parcel, row.secrets) for row in found} == {(b"", "")}


def test_unfinished_runs_are_listed_the_oldest_first(store: Store):
    for name, later in (("a", 5), ("b", 3), ("c", 3), ("d", 9), ("e", 0)):
        store.add_run(run(name, queued_at=NOW + later))
    begun(store, "d")
    store.claim("a", 0)
    store.ended("e", NOW, None)
    assert [row.id for row in store.unfinished()] == ["b", "c", "a", "d"]


def test_runs_are_listed_that_started_since(store: Store):
    for name, at in (("a", NOW), ("b", NOW + 10), ("c", NOW + 5)):
        store.add_run(run(name))
        store.claim(name, 0)
        store.started(name, at)
    store.add_run(run("d"))
    store.ended("b", NOW + 20, None)
    assert [row.id for row in store.started_since(NOW + 5)] == ["c", "b"]
    assert store.started_since(NOW + 11) == []


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


def test_ended_runs_of_a_team_or_of_a_role_are_removable(store: Store):
    for name, team, role in (("1", "red", "student"), ("2", "blue", "staff")):
        store.add_run(run(name, team, role=role))
        store.ended(name, NOW, Reason.DONE)
    assert [row.id for row in store.removable(NOW + 1, team="red")] == ["1"]
    assert [row.id for row in store.removable(NOW + 1, role="staff")] == ["2"]
    assert store.removable(NOW + 1, team="red", role="staff") == []


def test_ended_runs_are_removable_until_they_are_removed(store: Store):
    for number, at in enumerate((30, 10, 20, 40)):
        store.add_run(run(str(number)))
        store.ended(str(number), NOW + at, Reason.DONE, kept_bytes=1)
    store.add_run(run("waits"))
    found = [row.id for row in store.removable(NOW + 40)]
    assert found == ["1", "2", "0"]
    assert [row.id for row in store.removable(NOW + 40, 1)] == ["1"]
    store.add_run(run("staff", role="staff"))
    store.ended("staff", NOW, None)
    assert [row.id for row in store.removable(NOW + 40, 9, "staff")] == ["staff"]
    store.removed(["staff"])
    store.removed(["1", "2"])
    assert [row.id for row in store.removable(NOW + 40)] == ["0"]
    gone = state(store, "1")
    assert gone.removed
    assert gone.reason is Reason.DONE


def test_many_runs_are_removed_at_once(store: Store):
    names = [f"{number:04}" for number in range(1200)]
    store.removed(names)
    for name in names[:3]:
        store.add_run(run(name))
        store.ended(name, NOW, None)
    store.removed(names)
    assert store.removable(NOW + 1) == []


def test_a_request_that_is_too_large_is_refused(store: Store):
    for large in (run(parcel=b"x" * (4 << 20) + b"x"), run(secrets="é" * (3 << 20))):
        with pytest.raises(NotAllowedError, match="over 4 MiB"):
            store.add_run(large)
    assert store.run("0123456789") is None
    assert store.add_run(run(parcel=b"\0\xff" * (2 << 20)))[1]
