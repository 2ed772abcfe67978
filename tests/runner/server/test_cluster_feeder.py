"""The feeder of a server on a cluster: what goes into Slurm's queue, and its end."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.server import handover
from runner.wire.remote_runs import QueueState
from tests.runner.server.fake_cluster import WAITS, FakeCluster
from tests.runner.server.queued import Queue

WAITING, STARTING, RUNNING, ENDED = QueueState
A, B, C, D = (f"{number:010x}" for number in range(4))


class ClusterQueue(Queue):
    """A queue whose job host has a cluster; ``settle`` lets it go on for a while."""

    host: FakeCluster

    def __init__(self, folder, nodes: int = 2, cores: int = 2) -> None:
        super().__init__(folder)
        self.rules = replace(self.rules, slots=None)
        self.host = FakeCluster(folder / "cluster", nodes, cores)
        self.feeder = self.fresh()

    def turn(self) -> None:
        self.step()
        self.host.tick(self.now)


@pytest.fixture
def queue(tmp_path):
    one = ClusterQueue(tmp_path)
    yield one
    one.close()


def test_a_run_that_waits_in_slurm_says_so_and_is_not_handed_over_again(queue):
    queue.host.busy = {"n1": 2, "n2": 2}
    queue.put(A)
    queue.step(2)
    assert queue.state(A) is STARTING
    assert queue.row(A).why == WAITS
    for _ in range(10):
        queue.step(after_s=handover.CLAIMED_WITHIN_S)
    assert queue.state(A) is STARTING
    assert [one.id for one in queue.host.asked] == [A]
    queue.host.busy = {"n1": 0, "n2": 0}
    queue.turn()
    queue.turn()
    assert (queue.state(A), queue.row(A).why) == (RUNNING, "")


def test_a_run_that_waits_in_slurm_and_is_cancelled_ends_at_once(queue):
    queue.host.busy = {"n1": 2, "n2": 2}
    queue.put(A)
    queue.step(2)
    queue.store.ask_cancel(A, queue.now, "cancelled by ada")
    queue.step(2)
    row = queue.row(A)
    assert (row.state, row.reason) == (ENDED, Reason.CANCELLED)
    assert row.why == "cancelled by ada"
    assert queue.host.cancels == [A]


def test_a_measurement_is_handed_over_with_its_model_and_to_be_alone(queue):
    queue.put(A, alone=True, gpu_model="h100")
    queue.step()
    (asked,) = queue.host.asked
    assert (asked.alone, asked.gpu_model) == (True, "h100")


def test_a_restarted_server_goes_on_with_runs_that_wait_in_slurm(queue):
    queue.host.busy = {"n1": 2, "n2": 2}
    queue.put(A)
    queue.step(2)
    queue.restart()
    queue.step(3, after_s=60.0)
    assert queue.state(A) is STARTING
    assert len(queue.host.workers) == 0
    queue.host.busy = {"n1": 0, "n2": 0}
    queue.host.tick(queue.now)
    queue.step()
    assert queue.host.workers == [A]
    assert queue.state(A) is RUNNING


def test_a_full_cluster_gets_as_many_runs_as_it_has_nodes(queue):
    queue.host.busy = {"n1": 2, "n2": 2}
    for name in (A, B, C, D):
        queue.put(name)
    for _ in range(5):
        queue.turn()
    assert queue.host.jobs == [A, B]
    assert queue.row(C).why == "2 runs before it in Slurm's queue"


def test_a_drained_node_takes_nothing_and_is_named(queue):
    queue.host.out = {"n2": "is drained: a fan is broken"}
    for number in range(20):
        queue.put(f"{number:010x}")
    for _ in range(5):
        queue.turn()
    nodes = {queue.host.known[one].node for one in queue.host.going}
    assert nodes == {"n1"}
    last = queue.feeder.decision.standings[f"{19:010x}"]
    assert last.why.endswith("; node n2 is drained: a fan is broken")


def test_a_hundred_runs_of_ten_teams_begin_in_turn_on_two_nodes(queue):
    """Teams come one after the other, each with all of its runs."""
    owner = {}
    for team in range(10):
        for _ in range(10):
            name = f"{len(owner):010x}"
            owner[name] = f"team{team}"
            queue.put(name, f"team{team}")
    most = 0
    for _ in range(2000):
        queue.turn()
        most = max(most, len(queue.host.going) + len(queue.host.jobs))
        if queue.host.going:
            queue.host.end(queue.host.going[0])
        if len(queue.host.began) == 100 and not queue.host.going:
            break
    queue.step()
    began = [owner[one] for one in queue.host.began]
    for first in range(0, 100, 10):
        assert sorted(began[first : first + 10]) == sorted(set(owner.values()))
    assert Counter(queue.host.workers) == dict.fromkeys(owner, 1)
    assert {queue.state(name) for name in owner} == {ENDED}
    # There are two slots a node, and a run waits in Slurm for each node.
    assert most <= 2 * 2 + 2
    assert queue.host.most_waiting <= 2
