"""What of a queue starts, when the rest should, and what a team sees of that."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from runner.core import Reason
from runner.core.wire import QueueState
from runner.server.decision import NOT_LOOKED, PLAYED, WaitStanding, queue_view, view
from runner.server.scheduling import (
    REMEMBERED,
    GpuDay,
    QueueHistory,
    Role,
    ServerRules,
    room_of,
)
from tests.kit.queues import FREE, Played, decided, going, machine, row

TWO = ServerRules(roles={"student": Role("student", at_once=2)})


def teams(runs) -> str:
    return " ".join(one.team for one in runs)


def test_a_team_with_50_runs_delays_another_by_one_start():
    queue = Played(machine(gpus=1))
    queue.add(*(row("a", gpus=1) for _ in range(50)))
    queue.step()
    queue.add(row("b", gpus=1))
    for _ in range(3):
        queue.end(queue.active[0])
        queue.step()
    assert teams(queue.started) == "a b a a"


def test_the_team_that_had_no_start_for_the_longest_is_next():
    history = QueueHistory()
    history.note_start("a", "cpu", 30.0)
    history.note_start("b", "cpu", 20.0)
    rows = [row("a"), row("a"), row("b"), row("b"), row("c"), row("c")]
    found = decided(rows, machine(cores=12), history=history)
    assert teams(found.starts) == "c b a c b a"
    # Starts with GPUs count for turns with GPUs only.
    history.note_start("a", "gpu", 10.0)
    rows = [row("a", gpus=1), row("b", gpus=1)]
    assert teams(decided(rows, machine(gpus=1), history=history).starts) == "b"


def test_teams_that_started_at_one_moment_go_on_in_the_order_of_their_starts():
    queue = Played(machine(cores=12))
    queue.add(*(row(team) for team in "aaabbbcccddd"))
    queue.step()
    for one in list(queue.active):
        queue.end(one)
    queue.step()
    assert teams(queue.started) == "a b c d a b c d a b c d"


def test_a_higher_priority_starts_first_and_a_team_s_runs_as_they_came():
    rows = [row("a"), row("a"), row("b", priority=1), row("c", at=0.5)]
    found = decided(rows, machine(cores=8))
    assert [one.id for one in found.starts] == [rows[n].id for n in (2, 3, 0, 1)]


def test_a_team_that_had_gpus_for_long_enough_waits_with_those_runs_alone():
    rules = ServerRules(roles={"student": Role("student", gpu_a_day_s=600.0)})
    rows = [row("a", gpus=1), row("a"), row("b", gpus=1)]
    use = {"a": GpuDay(600.0, 0.0), "b": GpuDay(599.0, 0.0)}
    found = decided(rows, machine(gpus=1), rules, gpu_use=use)
    assert [one.id for one in found.starts] == [rows[1].id, rows[2].id]
    why = found.standings[rows[0].id].why
    assert why.startswith("your team had GPUs for the 10 min that it may in 24 hours")
    assert "; more from Jan 0" in why


def test_a_team_at_its_bound_is_passed_over():
    rows = [going(row("a")), going(row("a")), row("a"), row("b")]
    found = decided(rows, machine(cores=8), TWO)
    assert teams(found.starts) == "b"
    standing = found.standings[rows[2].id]
    assert standing.why == "your team has 2 runs going, as many as it may"
    assert standing.ahead == 0
    # A role that is gone may do what students may.
    rows = [row("a", role="gone") for _ in range(5)]
    assert len(decided(rows, machine(cores=16), TWO).starts) == 2


def test_a_team_s_oldest_runs_have_the_first_right_to_its_bound():
    held = going(row("b", gpus=1))
    rows = [held, row("a", gpus=1), row("a"), row("a")]
    found = decided(rows, machine(gpus=1), TWO)
    assert [one.id for one in found.starts] == [rows[2].id]
    why = found.standings[rows[3].id].why
    assert why == "your team may have 2 runs going, and earlier ones come first"


def test_gpus_are_held_back_for_a_run_that_needs_several_and_slots_are_not():
    rows = [going(row("b", gpus=1)), row("a", gpus=2), row("b", gpus=1), row("a")]
    found = decided(rows, machine(gpus=2))
    assert found.starts == (rows[3],)
    wide, behind = found.standings.values()
    assert wide.why == "it needs 2 GPUs: 1 free, 1 in use"
    assert (behind.why, behind.ahead) == ("1 run before it", 1)
    (alone,) = decided(
        [*rows[:1], row("a", gpus=1)], machine(gpus=1)
    ).standings.values()
    assert alone.why == "no GPU is free: 1 in use"


def test_a_gpu_that_is_out_gives_no_room_and_is_named():
    rows = [row("a", gpus=1), row("a", gpus=1), row("a", gpus=2)]
    found = decided(rows, machine(gpus=2, out=[1]))
    assert [one.id for one in found.starts] == [rows[0].id]
    broken = "GPU 1 is out of order: it fell off the bus"
    assert found.standings[rows[1].id].why == f"no GPU is free: 1 in use; {broken}"
    assert found.standings[rows[2].id].why == broken


def test_a_gpu_that_a_run_holds_beyond_what_it_asked_for_is_in_use():
    active = [going(row("a", gpus=1)), going(row("b"))]
    four, held = ServerRules(slots=4), {active[1].id: ("GPU-0",)}
    room = room_of(machine(gpus=3), four, active, held)
    assert (room.gpus, room.gpus_free, room.slots_free) == (3, 1, 3)
    held = {active[0].id: ("GPU-1",)}
    room = room_of(machine(gpus=3, out=[1]), four, active, held)
    assert (room.gpus, room.gpus_free) == (2, 2)


def test_a_run_that_can_never_start_holds_nobody():
    rows = [row("a", gpus=2), row("a", gpus=1), row("b", gpus=4)]
    found = decided(rows, machine(gpus=1))
    assert [one.id for one in found.starts] == [rows[1].id]
    assert found.standings[rows[0].id].why == "it needs 2 GPUs, and this server has 1"
    none = decided([row(gpus=1)], machine())
    (standing,) = none.standings.values()
    assert standing.why == "it needs a GPU, and this server has none"


def test_where_nothing_starts_everybody_is_told_why():
    note = "the server is drained: a new driver"
    found = decided([row("a"), row("b")], machine(), note=note)
    assert found.starts == () and found.note == note
    told = [(one.why, one.ahead) for one in found.standings.values()]
    assert told == [(note, 0), (note, 1)]
    blind = decided([row()], None)
    assert (blind.starts, blind.note) == ((), NOT_LOOKED)


def test_slots_are_half_of_the_cores_or_what_the_rules_say():
    rows = [row() for _ in range(5)]
    assert len(decided(rows, machine(cores=4)).starts) == 2
    assert len(decided(rows, machine(cores=1)).starts) == 1
    found = decided(rows, machine(), ServerRules(slots=4, roles=FREE.roles))
    assert len(found.starts) == 4
    assert found.standings[rows[4].id].why == "no slot is free: 4 in use"


def usual(**seconds: float) -> QueueHistory:
    history = QueueHistory()
    for team, took in seconds.items():
        history.note_end(team, "gpu", took)
    return history


def waits(rows, *more, history, **other):
    found = decided(rows, machine(gpus=1), *more, history=history, now=100.0, **other)
    told = found.standings
    return [told[one.id].estimate_s for one in rows if one.id in told]


def test_a_run_waits_for_what_is_left_of_those_before_it():
    rows = [going(row("a", gpus=1), at=40.0), row("a", gpus=1), row("b", gpus=1)]
    assert waits(rows, history=usual(a=90.0, b=10.0)) == [30.0, 120.0]
    # One that takes longer than usual ends at any moment.
    rows = [going(row("a", gpus=1), at=0.0), row("a", gpus=1)]
    assert waits(rows, history=usual(a=50.0)) == [0.0]
    # A new team is taken to be as the others.
    rows = [going(row("new", gpus=1), at=100.0), row("b", gpus=1)]
    assert waits(rows, history=usual(a=20.0, b=40.0)) == [30.0]


def test_where_nothing_is_known_or_nothing_starts_there_is_no_estimate():
    rows = [going(row("a", gpus=1)), row("a", gpus=1), row("b", gpus=1)]
    assert waits(rows, history=QueueHistory()) == [None, None]
    assert waits(rows[1:], history=usual(a=1.0), note="drained") == [None, None]


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
    assert view(one, standing, "b", staff=True).person == "ann"


def test_only_a_run_that_waits_has_a_place_which_may_not_be_decided_yet():
    one = row("a", why="the server can run nothing: why")
    shown = view(one, None, "a")
    assert (shown.why, shown.ahead) == (one.why, None)
    ended = {"state": QueueState.ENDED, "reason": Reason.NO_ENGINE, "ended_at": 9.0}
    shown = view(replace(going(one), **ended), WaitStanding(2, "2 runs", 30.0), "a")
    assert (shown.ahead, shown.estimate_s, shown.why) == (None, None, one.why)
    assert (shown.reason, shown.ended_at) == ("no_engine", 9.0)


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
