"""What a team sees of a queue."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Reason
from runner.scheduling.decision import WaitStanding
from runner.scheduling.views import queue_view, view
from runner.wire.remote_runs import QueueState
from tests.runner.scheduling.queues import decided, going, machine, row


def test_a_team_sees_who_and_why_of_its_own_runs_only():
    one = row("a", project="/home/ann/lab", gpus=1)
    standing = WaitStanding(2, "2 runs before it", 30.0)
    own = view(one, standing, "a")
    assert (own.person, own.project, own.mine) == ("ann", "/home/ann/lab", True)
    assert (own.ahead, own.estimate_s, own.why) == (2, 30.0, "2 runs before it")
    others = view(one, standing, "b")
    assert (others.person, others.project, others.why) == ("", "", "")
    assert not others.mine
    assert (others.team, others.gpus, others.ahead) == ("a", 1, 2)


def test_without_a_decision_a_run_shows_what_the_store_knows():
    one = row("a", why="the server can run nothing: why")
    assert view(one, None, "a").why == one.why
    assert view(one, None, "a").ahead is None


def test_a_run_that_waits_no_more_has_no_place():
    ended = replace(
        going(row("a")),
        state=QueueState.ENDED,
        reason=Reason.NO_ENGINE,
        why="no engine",
        ended_at=9.0,
    )
    shown = view(ended, WaitStanding(2, "2 runs before it", 30.0), "a")
    assert (shown.ahead, shown.estimate_s) == (None, None)
    assert (shown.why, shown.reason, shown.ended_at) == ("no engine", "no_engine", 9.0)


def test_the_queue_is_in_the_order_of_starts_and_new_runs_come_last():
    rows = [row("a"), row("a"), row("a"), row("b"), going(row("c"))]
    found = decided(rows, machine(gpus=1, cores=2))
    assert found.starts == ()
    new = row("d")
    shown = queue_view([new, *rows], found, "b")
    assert [one.team for one in shown.running] == ["c"]
    assert [one.team for one in shown.waiting] == ["a", "b", "a", "a", "d"]
    assert [one.person for one in shown.waiting] == ["", "ann", "", "", ""]
    assert (shown.gpus, shown.gpus_free, shown.slots, shown.slots_free) == (1, 1, 1, 0)
    drained = decided(rows, machine(), note="the server is drained: update")
    assert queue_view(rows, drained, "b").note == "the server is drained: update"
