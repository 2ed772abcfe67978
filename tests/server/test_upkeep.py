"""What a server removes by itself, and what it must not."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.core import GIB, Reason
from runner.core.errors import BusyError
from runner.core.quantities import DAY_S
from runner.core.wire import QueueState
from runner.server.database.accounts import Invitation
from runner.server.paths import upload_path
from runner.server.scheduling import Role, ServerRules
from runner.server.upkeep import Upkeep
from tests.kit.queued import NOW, SHA256, Queue

RULES = ServerRules(
    roles={
        "student": Role("student", keep_s=2 * DAY_S, disk_bytes=100),
        "staff": Role("staff", keep_s=9 * DAY_S, disk_bytes=10_000),
    },
    slots=50,
)
A, B, C, D = (f"{number:010x}" for number in range(4))


@pytest.fixture
def queue(tmp_path):
    one = Queue(tmp_path, rules=RULES)
    yield one
    one.close()


def tidy(queue: Queue, after_s: float = 0.0) -> None:
    queue.now += after_s
    upkeep = Upkeep(queue.store, queue.runs, queue.rules, queue.folder)
    upkeep.tidy(queue.now, queue.runs.capacity())


def ended(queue: Queue, run_id: str, kept_bytes: int = 10, **other: object) -> None:
    """Have a run start and end."""
    queue.put(run_id, **other)
    queue.step(2)
    queue.runs.end(run_id, kept_bytes=kept_bytes)
    queue.store.ended(run_id, queue.now, Reason.DONE, "", kept_bytes)
    queue.step()


def there(queue: Queue) -> set[str]:
    """Return the runs whose folders are there, which the store says too."""
    known = {r.id for r in queue.store.runs(limit=1000) if not r.removed}
    return {name for name in known if queue.runs.paths(name).root.exists()}


def test_a_run_is_kept_as_long_as_its_role_says(queue):
    ended(queue, A, role="student")
    ended(queue, B, role="staff")
    ended(queue, C, role="gone")
    tidy(queue, DAY_S)
    assert there(queue) == {A, B, C}
    tidy(queue, DAY_S)
    assert there(queue) == {B, C}
    assert queue.row(A).removed and not queue.row(B).removed
    tidy(queue, 7 * DAY_S)
    assert there(queue) == set()
    assert queue.store.use("red", queue.now).bytes == 0


def test_many_runs_are_removed_some_at_a_time(queue, monkeypatch):
    monkeypatch.setattr("runner.server.upkeep.AT_ONCE", 10)
    for number in range(25):
        name = f"{number:010x}"
        queue.put(name)
        queue.store.ended(name, queue.now, Reason.CANCELLED)
    tidy(queue, 3 * DAY_S)
    assert all(row.removed for row in queue.store.runs(limit=30))
    assert queue.steps.count("runs_removed") == 3


def test_the_oldest_runs_of_a_team_over_its_quota_go_first(queue):
    queue.store.invite([Invitation("red", "ada"), Invitation("blue", "bo")], NOW, 9e9)
    ended(queue, A, 60)
    ended(queue, B, 60)
    ended(queue, C, 60)
    ended(queue, D, 60, team="blue")
    tidy(queue, 600.0)
    assert there(queue) == {A, B, C, D}  # their clients may be reading them
    tidy(queue, 3600.0)
    assert there(queue) == {C, D}


def test_where_the_disk_is_low_the_oldest_runs_of_all_go(queue):
    ended(queue, A, GIB, role="staff")
    queue.now += 3600.0
    ended(queue, B, GIB, role="staff")
    ended(queue, C, GIB, role="staff")
    queue.runs.disk_free = 4 * GIB
    tidy(queue, 3600.0)
    assert there(queue) == {A, B, C}
    tidy(queue, DAY_S)
    assert there(queue) == {B, C}
    queue.runs.disk_free = 5 * GIB
    tidy(queue)
    assert there(queue) == {B, C}


def test_an_upload_goes_when_no_run_needs_it_and_nobody_sent_it_for_a_while(queue):
    file = queue.upload()
    queue.runs.looked = False
    queue.put(A)
    queue.restart()
    queue.step()
    queue.runs.looked = True
    tidy(queue, 5 * DAY_S)
    assert file.exists()
    queue.step(2)
    assert queue.state(A) is QueueState.RUNNING
    tidy(queue)
    assert not file.exists()
    assert queue.store.upload("red", SHA256, queue.now) is None
    assert queue.runs.paths(A).source.exists()


def test_where_the_disk_is_low_uploads_go_sooner(queue):
    file = queue.upload()
    queue.runs.disk_free = 0
    tidy(queue, 300.0)
    assert file.exists()
    tidy(queue, 301.0)
    assert not file.exists()


def test_a_run_that_goes_on_although_it_ended_here_is_cancelled_first(queue):
    queue.put(A)
    queue.step(2)
    queue.store.ended(A, queue.now, Reason.RUNNER_LOST)
    tidy(queue, 3 * DAY_S)
    assert queue.runs.cancels == [A]
    assert not queue.row(A).removed
    queue.runs.end(A, Reason.CANCELLED)
    tidy(queue)
    assert queue.row(A).removed and there(queue) == set()


def test_it_is_due_once_a_minute_and_goes_on_after_a_failure(queue, monkeypatch):
    def failing(ids):
        raise BusyError("the disk is away")

    ended(queue, A)
    upkeep = Upkeep(queue.store, queue.runs, queue.rules, queue.folder)
    later = queue.now + 3 * DAY_S
    upkeep.when_due(later, None)
    facts = queue.feeder.facts
    with monkeypatch.context() as patched, pytest.raises(BusyError):
        patched.setattr(queue.runs, "remove", failing)
        upkeep.when_due(later, facts)
    upkeep.when_due(later + 59, facts)
    assert there(queue) == {A}
    upkeep.when_due(later + 60, facts)
    assert there(queue) == set()
    ended(queue, B)
    upkeep.when_due(later - 60, facts)  # the clock was set back
    assert there(queue) == set()


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["put", "step", "end", "cancel", "wait", "low", "restart"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@pytest.mark.lengthy
@settings(max_examples=8)
@given(ACTS)
def test_nothing_is_removed_that_a_run_needs_which_has_not_ended(acts):
    with TemporaryDirectory() as folder:
        queue = Queue(Path(folder), rules=RULES)
        queue.store.invite([Invitation("red", "ada")], NOW, 9e9)
        try:
            for act, number in acts:
                played(queue, act, number)
                tidy(queue, 60.0)
                needed(queue)
        finally:
            queue.close()


def played(queue: Queue, act: str, number: int) -> None:
    run_id = f"{number:010x}"
    known = queue.runs.known.get(run_id)
    match act:
        case "put":
            queue.put(run_id, sha256=f"{number % 3}" * 64)
        case "step":
            queue.step()
        case "end" if known and known.claimed and not known.ended:
            queue.runs.end(run_id, kept_bytes=70)
        case "cancel":
            queue.store.ask_cancel(run_id, queue.now, "")
        case "wait":
            queue.now += number * DAY_S / 2
        case "low":
            queue.runs.disk_free = (number % 2) * 100 * GIB
        case "restart":
            queue.restart()


def needed(queue: Queue) -> None:
    """Check that each run that has not ended has what it needs."""
    for row in queue.store.unfinished():
        if row.state is QueueState.RUNNING:
            assert queue.runs.paths(row.id).source.exists()
            assert row.id not in queue.runs.removed
        else:
            assert upload_path(queue.folder, row.team, row.sha256).exists()
            assert queue.store.use(row.team, 0).bytes >= 6
