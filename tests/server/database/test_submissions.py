"""Submissions in the store: receipts, attempts, steps; on each database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.measurement import MeasurementHost
from runner.core.milestone import Trust
from runner.core.wire import StageRun, Submission
from runner.server.database import Store
from runner.server.database.submissions import Receipt
from tests.kit import judge_cases as made
from tests.kit.store_rows import DAY_S, NOW, run

SHA256 = "5" * 64
MEASURED = replace(
    made.read(made.ACCEPTED).brief,
    host=MeasurementHost("", "ranked"),
)


def receipt(key: str, team: str = "red", most: int = 3, **changes: object) -> Receipt:
    def make(number: int, at: float, used: int) -> Submission:
        if used >= most:
            raise RuntimeError("no attempt is left")
        known = (number, key, team, "ada", "student", "final", Trust.RANKED, "2026fa")
        more = (SHA256, "net", "", at, 0.0, used + 1, 3, False, True)
        return replace(Submission(*known, *more), **changes)

    return make


def add(
    store: Store, key: str, team: str = "red", at: float = NOW, **changes: Any
) -> tuple[Submission, bool]:
    made = receipt(key, team, **changes)
    return store.add_submission(team, key, "final", "2026fa", at, made)


def test_a_submission_comes_back_as_it_was_and_is_added_once(store: Store):
    first, new = add(store, "a", measured=MEASURED, runs=(StageRun("c", "0123456789"),))
    assert new and first.number == 1
    assert add(store, "a", at=NOW + 9) == (first, False)
    assert store.submission(1) == first and store.submission(2) is None
    other, new = add(store, "a", team="blue")
    assert new and (other.number, other.attempt) == (2, 1)
    assert [one.number for one in store.submissions("red")] == [1]
    assert [one.number for one in store.submissions()] == [2, 1]
    assert store.submissions(None, "final", limit=1) == [other]


def test_a_clock_that_is_set_back_gives_no_earlier_time(store: Store):
    add(store, "a", at=NOW)
    assert add(store, "b", "blue", NOW - DAY_S)[0].received_at == NOW
    assert store.latest_receipt() == NOW
    assert add(store, "c", at=NOW + 1)[0].received_at == NOW + 1


def test_of_many_at_once_as_many_are_taken_as_attempts_are_left(store: Store):
    def ask(number: int) -> bool:
        try:
            return add(store, f"key{number}")[1]
        except RuntimeError:
            return False

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(ask, range(8)))

    assert sum(taken) == 3
    assert sorted(one.attempt for one in store.submissions("red")) == [1, 2, 3]
    spoiled = store.submissions("red")[0]
    over = replace(spoiled, charged=False, reason=Reason.BUSY, ended_at=NOW)
    assert store.judge(spoiled, over)
    assert store.attempts_used("red", "final", "2026fa") == 2
    assert add(store, "again")[0].attempt == 3


def test_a_step_is_taken_once_with_its_run(store: Store):
    one, _ = add(store, "a")
    after = replace(one, runs=(StageRun("compile", "0123456789"),))
    assert store.judge(one, after, run(submission=1))
    assert not store.judge(one, after, run("9876543210", submission=1))
    assert store.run("9876543210") is None

    assert store.submission(1) == after and store.unjudged() == [after]
    ended = replace(after, reason=Reason.DONE, ended_at=NOW, measured=MEASURED)
    assert store.judge(after, ended)
    assert not store.judge(after, replace(ended, reason=Reason.BUSY))
    assert store.unjudged() == [] and store.may_count("final", "2026fa", "red")


@pytest.mark.parametrize("rehearsal", [False, True])
def test_what_a_submission_is_made_of_is_never_removed_a_rehearsals_is(
    store: Store, rehearsal: bool
):
    for sha256 in (SHA256, "6" * 64):
        store.add_upload("red", sha256, 10, NOW)
    one, _ = add(store, "a", rehearsal=rehearsal)
    store.add_run(run("0123456789", submission=1))
    store.add_run(run("9876543210", sha256="6" * 64))
    gone: list[str] = []

    for name in ("0123456789", "9876543210"):
        store.claim(name, 0)
        store.started(name, NOW)
        store.ended(name, NOW + 1, Reason.DONE, kept_bytes=100)
    store.judge(one, replace(one, reason=Reason.DONE, ended_at=NOW))
    old = store.removable(NOW + DAY_S)
    store.remove_uploads(NOW + DAY_S, lambda team, sha256: gone.append(sha256))

    assert ("0123456789" in [row.id for row in old]) == rehearsal
    assert (SHA256 in gone) == rehearsal and "6" * 64 in gone
    assert store.use("red", 0).bytes == (200 if rehearsal else 100)
    assert store.use("red", 0).queued_since == 1 + rehearsal
    assert store.gpu_use(0, NOW) == {}


def test_what_a_closed_term_kept_counts_until_it_is_removed(store: Store):
    one, _ = add(store, "a")
    store.add_run(run(submission=1))
    store.ended("0123456789", NOW, Reason.DONE, kept_bytes=100)
    store.judge(one, replace(one, reason=Reason.DONE, ended_at=NOW))
    found = [store.use("red", 0).bytes]

    for step in (
        lambda: store.close_term("2026fa"),
        lambda: store.removed(["0123456789"]),
    ):
        step()
        found.append(store.use("red", 0).bytes)

    assert found == [0, 100, 0]


def test_a_choice_is_one_of_a_milestone(store: Store):
    one, _ = add(store, "a")
    two, _ = add(store, "b")
    store.choose(one)
    before = store.changes()
    store.choose(two)
    assert store.changes() > before, "what boards are made of is read again"
    assert [each.chosen for each in store.submissions("red")] == [True, False]


def test_of_many_at_once_each_is_told_the_names_that_are_kept(store: Store):
    teams = [{f"team {number}", "red"} for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda some: store.pseudonyms("2026fa", some), teams))
    kept = store.pseudonyms("2026fa", [])
    assert len(kept) == 9 and all(one.items() <= kept.items() for one in told)
