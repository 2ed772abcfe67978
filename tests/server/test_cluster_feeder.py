"""The feeder of a server on a cluster: what goes into Slurm's queue, and its end."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.wire import QueueState
from runner.server import feeder
from runner.server.decision import queue_view
from runner.server.scheduling import Role
from tests.kit.fake_cluster import WAITS, FakeCluster
from tests.kit.queued import Queue

WAITING, STARTING, RUNNING, ENDED = QueueState
A, B, C, D = (f"{number:010x}" for number in range(4))


class ClusterQueue(Queue):
    """A queue on a cluster; ``settle`` lets it go on for a while."""

    runs: FakeCluster

    def __init__(self, folder) -> None:
        super().__init__(folder)
        role = Role("student", account="course", partition="gpu")
        roles = {"student": role}
        self.rules = replace(self.rules, gpu_jobs=1, cpu_jobs=6, roles=roles)
        self.runs = FakeCluster(folder / "cluster")
        self.feeder = self.fresh()

    def turn(self) -> None:
        self.step()
        self.runs.tick(self.now)


@pytest.fixture
def queue(tmp_path):
    one = ClusterQueue(tmp_path)
    yield one
    one.close()


def test_a_run_that_waits_in_slurm_says_so_and_is_handed_over_once(queue):
    queue.runs.room = 0
    queue.put(A)
    queue.step(2)
    assert queue.state(A) is STARTING
    assert queue.row(A).why == WAITS
    for _ in range(10):
        queue.step(after_s=feeder.CLAIMED_WITHIN_S)
    assert queue.state(A) is STARTING
    queue.restart()
    queue.step(3, after_s=60.0)
    assert queue.state(A) is STARTING
    assert [one for one, _ in queue.runs.asked] == [A]
    queue.runs.room = 4
    queue.turn()
    queue.turn()
    assert (queue.state(A), queue.row(A).why) == (RUNNING, "")
    assert queue.runs.workers == [A]


def test_a_run_that_waits_in_slurm_and_is_cancelled_ends_at_once(queue):
    queue.runs.room = 0
    queue.put(A)
    queue.step(2)
    queue.store.ask_cancel(A, queue.now, "cancelled by ada")
    queue.step(2)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.CANCELLED)
    assert row.why == "cancelled by ada"
    assert queue.runs.cancels == [A]


def test_slurm_is_told_whose_run_it_is_and_what_its_role_has(queue):
    queue.put(A, "red")
    queue.step()
    ((_, asked),) = queue.runs.asked
    assert asked.terms.slurm == {
        "account": "course",
        "partition": "gpu",
        "comment": "rai:red/ada",
    }


def test_slurm_has_so_many_runs_with_a_gpu_and_so_many_without(queue):
    queue.runs.room = 0
    for number in range(8):
        queue.put(f"{number:010x}")
    queue.put(f"{8:010x}", gpus=4)
    queue.put(f"{9:010x}", gpus=1)
    for _ in range(3):
        queue.turn()
    assert len(queue.runs.jobs) == 7
    assert f"{8:010x}" in queue.runs.jobs
    last = queue.feeder.decision.standings
    assert [last[f"{one:010x}"].why for one in (6, 7, 9)] == [
        "6 runs without a GPU may be in Slurm's queue at a time",
        "1 run before it",
        "1 run with a GPU may be in Slurm's queue at a time",
    ]
    shown = queue_view(queue.store.unfinished(), queue.feeder.decision, "red")
    assert shown.in_slurm
    assert (shown.gpus, shown.gpus_free, shown.slots, shown.slots_free) == (1, 0, 6, 0)


def test_the_runs_of_many_teams_begin_in_turn(queue):
    """Teams come one after the other, each with all of its runs."""
    owner = {}
    for team in range(5):
        for _ in range(6):
            name = f"{len(owner):010x}"
            owner[name] = f"team{team}"
            queue.put(name, f"team{team}")
    most = 0
    for _ in range(600):
        queue.turn()
        most = max(most, len(queue.runs.going) + len(queue.runs.jobs))
        if queue.runs.going:
            queue.runs.end(queue.runs.going[0])
        if len(queue.runs.began) == 30 and not queue.runs.going:
            break
    queue.step()
    began = [owner[one] for one in queue.runs.began]
    for first in range(0, 30, 5):
        assert sorted(began[first : first + 5]) == sorted(set(owner.values()))
    assert Counter(queue.runs.workers) == dict.fromkeys(owner, 1)
    assert {queue.state(name) for name in owner} == {ENDED}
    assert most == 6
