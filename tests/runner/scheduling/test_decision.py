"""What of a queue starts, in which order, and what is said to those that wait."""

from __future__ import annotations

import pytest

from runner.scheduling import words
from runner.scheduling.history import QueueHistory
from runner.scheduling.roles import Role, ServerRules
from runner.scheduling.room import GpuDay, room_of
from tests.runner.scheduling.queues import Played, decided, going, machine, row

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


def test_starts_with_gpus_count_for_turns_with_gpus_only():
    history = QueueHistory()
    history.note_start("a", "gpu", 10.0)
    history.note_start("b", "cpu", 20.0)
    rows = [row("a", gpus=1), row("b", gpus=1)]
    assert teams(decided(rows, machine(gpus=1), history=history).starts) == "b"


def test_a_team_at_its_bound_is_passed_over():
    rows = [going(row("a")), going(row("a")), row("a"), row("b")]
    found = decided(rows, machine(cores=8), TWO)
    assert teams(found.starts) == "b"
    standing = found.standings[rows[2].id]
    assert standing.why == "your team has 2 runs going, as many as it may"
    assert standing.ahead == 0


def test_a_team_s_oldest_runs_have_the_first_right_to_its_bound():
    held = going(row("b", gpus=1))
    rows = [held, row("a", gpus=1), row("a"), row("a")]
    found = decided(rows, machine(gpus=1), TWO)
    assert [one.id for one in found.starts] == [rows[2].id]
    why = found.standings[rows[3].id].why
    assert why == "your team may have 2 runs going, and earlier ones come first"


def test_runs_without_a_gpu_do_not_wait_for_gpus():
    rows = [going(row("a", gpus=1)), row("a", gpus=1), row("a")]
    found = decided(rows, machine(gpus=1))
    assert [one.id for one in found.starts] == [rows[2].id]
    assert found.standings[rows[1].id].why == "no GPU is free: 1 in use"


def test_gpus_are_held_back_for_a_run_that_needs_several():
    wide = row("a", gpus=2)
    rows = [going(row("b", gpus=1)), wide, row("b", gpus=1)]
    found = decided(rows, machine(gpus=2))
    assert found.starts == ()
    assert found.standings[wide.id].why == "it needs 2 GPUs: 1 free, 1 in use"
    assert found.standings[rows[2].id].why == "1 run before it"
    assert found.standings[rows[2].id].ahead == 1


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


@pytest.mark.parametrize(
    "note", [words.drained("a new driver"), words.no_service("why")]
)
def test_where_nothing_starts_everybody_is_told_why(note):
    rows = [row("a"), row("b")]
    found = decided(rows, machine(), note=note)
    assert found.starts == () and found.note == note
    assert [(s.why, s.ahead) for s in found.standings.values()] == [
        (note, 0),
        (note, 1),
    ]


def test_without_facts_nothing_starts():
    found = decided([row()], None)
    assert (found.starts, found.note) == (
        (),
        "the server has not looked at its engines and GPUs yet",
    )


def test_slots_are_half_of_the_cores_or_what_the_rules_say():
    rows = [row() for _ in range(5)]
    assert len(decided(rows, machine(cores=4)).starts) == 2
    assert len(decided(rows, machine(cores=1)).starts) == 1
    four = ServerRules(slots=4)
    free = decided([row(f"{n}") for n in range(5)], machine(), four)
    assert len(free.starts) == 4
    (standing,) = free.standings.values()
    assert standing.why == "no slot is free: 4 in use"


def test_a_role_that_is_gone_may_do_what_students_may():
    rows = [row("a", role="gone") for _ in range(5)]
    assert len(decided(rows, machine(cores=16), TWO).starts) == 2
