"""When runs should start, as far as the past tells."""

from __future__ import annotations

import pytest

from runner.scheduling.estimates import PLAYED
from runner.scheduling.history import REMEMBERED, QueueHistory
from runner.scheduling.roles import Role, ServerRules
from tests.runner.scheduling.queues import decided, going, machine, row


def usual(**seconds: float) -> QueueHistory:
    history = QueueHistory()
    for team, took in seconds.items():
        history.note_end(team, "gpu", took)
    return history


def waits(rows, *more, history, **other):
    found = decided(rows, machine(gpus=1), *more, history=history, now=100.0, **other)
    return [
        found.standings[one.id].estimate_s for one in rows if one.id in waiting(found)
    ]


def waiting(found):
    return found.standings


def test_a_run_waits_for_what_is_left_of_those_before_it():
    rows = [going(row("a", gpus=1), at=40.0), row("a", gpus=1), row("b", gpus=1)]
    history = usual(a=90.0, b=10.0)
    history.note_start("a", "gpu", 40.0)
    assert waits(rows, history=history) == [40.0, 30.0]


def test_a_run_that_takes_longer_than_usual_ends_at_any_moment():
    rows = [going(row("a", gpus=1), at=0.0), row("a", gpus=1)]
    assert waits(rows, history=usual(a=50.0)) == [0.0]


def test_where_nothing_is_known_of_what_goes_on_there_is_no_estimate():
    rows = [going(row("a", gpus=1)), row("a", gpus=1), row("b", gpus=1)]
    assert waits(rows, history=QueueHistory()) == [None, None]


def test_a_new_team_is_taken_to_be_as_the_others():
    rows = [going(row("new", gpus=1), at=100.0), row("b", gpus=1)]
    assert waits(rows, history=usual(a=20.0, b=40.0)) == [30.0]


def test_a_drained_server_has_no_estimates():
    rows = [row("a", gpus=1)]
    assert waits(rows, history=usual(a=1.0), note="drained") == [None]


def test_a_team_s_bound_counts():
    one = ServerRules(roles={"student": Role("student", at_once=1)})
    rows = [row("a", gpus=1), row("a"), row("b", gpus=1)]
    history = usual(a=10.0)
    history.note_end("a", "cpu", 5.0)
    assert waits(rows, one, history=history) == [10.0, 10.0]


def test_those_far_behind_wait_at_the_pace_of_the_first():
    rows = [going(row("a", gpus=1), at=100.0), *(row("a", gpus=1) for _ in range(999))]
    found = waits(rows, history=usual(a=10.0))
    assert found[:3] == [10.0, 20.0, 30.0]
    assert found[PLAYED + 5] == pytest.approx(10.0 * (PLAYED + 6))
    assert found[-1] == pytest.approx(9990.0)


def test_only_the_latest_runs_of_a_team_count():
    history = usual(a=1e6)
    for _ in range(REMEMBERED):
        history.note_end("a", "gpu", 3.0)
    assert history.usual_s("a", "gpu") == 3.0
    assert history.usual_s("a", "cpu") is None
