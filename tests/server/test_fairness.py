"""Whatever is queued: nobody starves, nothing is over the room, turns are kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.queues import Played, machine, row

pytestmark = pytest.mark.lengthy

GPUS, CORES = 2, 4
BOUNDS = st.sampled_from([None, 1, 2, 3])
RUNS = st.builds(row, st.sampled_from("abcd"), gpus=st.sampled_from([0, 0, 1, 1, 2]))


def within(active) -> None:
    """Check that what goes on fits the machine."""
    assert sum(one.gpus for one in active) <= GPUS
    assert sum(not one.gpus for one in active) <= CORES // 2


@settings(max_examples=20)
@given(st.lists(RUNS, max_size=30), BOUNDS, st.data())
def test_every_run_starts_and_nothing_is_over_the_room(rows, at_once, data):
    queue = Played(machine(GPUS, cores=CORES), at_once)
    most = at_once or len(rows)

    def check(active) -> None:
        within(active)
        counts = [sum(one.team == team for one in active) for team in "abcd"]
        assert max(counts) <= most

    queue.watch = check
    queue.add(*rows)
    queue.step()
    while queue.active:
        # What goes on ends in any order; more may end before the next decision.
        for one in data.draw(st.sets(st.sampled_from(queue.active), min_size=1)):
            queue.end(one)
        queue.step()
    assert sorted(one.id for one in queue.started) == sorted(one.id for one in rows)


@settings(max_examples=20)
@given(st.lists(RUNS, max_size=10), RUNS, BOUNDS, st.data())
def test_no_run_waits_for_ever_behind_a_stream_of_others(first, last, at_once, data):
    """Each end brings new runs of all teams, also of its own."""
    queue = Played(machine(GPUS, cores=CORES), at_once)
    queue.watch = within
    queue.add(*first)
    queue.step()
    queue.add(last)
    for _ in range(200):
        queue.step()
        if last in queue.started:
            return
        queue.end(data.draw(st.sampled_from(queue.active)))
        fresh = [data.draw(RUNS) for _ in range(2)]
        queue.add(*fresh[: max(0, 12 - len(queue.waiting))])
    raise AssertionError("it never started")


@settings(max_examples=12)
@given(
    st.integers(0, 2),
    st.lists(st.sampled_from("ab"), min_size=1, max_size=8),
    st.integers(0, 8),
    st.data(),
)
def test_another_team_s_runs_delay_a_team_by_at_most_one_start(gpus, owners, at, data):
    """Team b's runs come at any time, and team a has runs waiting all the time."""
    queue = Played(machine(GPUS, cores=CORES))
    queue.add(*(row("a", gpus=gpus) for _ in range(42)))
    for number in range(28):
        if number == at:
            queue.add(*(row(team, gpus=gpus) for team in owners))
        waits = any(one.team == "b" for one in queue.waiting)
        before = len(queue.started)
        queue.step()
        new = "".join(one.team for one in queue.started[before:])
        if waits and "b" not in new:
            assert new in ("", "a")
        elif waits:
            assert new.index("b") <= 1
            assert "aa" not in new[: new.rindex("b")]
        if queue.active:
            queue.end(data.draw(st.sampled_from(queue.active)))
    b = sum(team == "b" for team in owners)
    if b and at + 2 * b + 3 < 28:
        started = "".join(one.team for one in queue.started)
        assert started.count("b") == b
