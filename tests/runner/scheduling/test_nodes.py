"""Which runs start on the nodes of a cluster, and what is said to those that wait."""

from __future__ import annotations

from msgspec.structs import replace

from runner.scheduling.cluster_room import room_of
from runner.scheduling.decision import decide
from runner.scheduling.history import QueueHistory
from runner.scheduling.roles import Role, ServerRules
from runner.wire.host import HostFacts, HostNode, HostRun
from runner.wire.remote_runs import QueueState
from tests.runner.scheduling.queues import FREE, going, row

NOW = 1000.0


def node(
    name: str = "n1",
    gpus: dict[str, int] | None = None,
    free: dict[str, int] | None = None,
    cores: int = 8,
    cores_free: int | None = None,
    out: str = "",
) -> HostNode:
    """Return a node, of which everything is free unless that is said."""
    gpus = {} if gpus is None else gpus
    left = cores if cores_free is None else cores_free
    return HostNode(name, cores, left, gpus, gpus if free is None else free, out)


def cluster(*nodes: HostNode, at: float = NOW) -> HostFacts:
    return HostFacts("1", ("docker",), nodes=nodes, nodes_at=at)


def decided(rows, facts, seen=None, rules=FREE, history=None):
    return decide(rows, facts, rules, history or QueueHistory(), NOW, seen)


def pending(one):
    """Return a run that Slurm has in its queue, and what is known of it."""
    waits = HostRun(one.id, False, False, waits="Slurm has no room")
    return replace(one, state=QueueState.STARTING), {one.id: waits}


def whys(found) -> list[str]:
    return [standing.why for standing in found.standings.values()]


def test_a_run_needs_all_its_gpus_on_one_node():
    two = cluster(node("n1", {"h100": 4}, {"h100": 1}), node("n2", {"h100": 4}))
    big = [row(gpus=4), row(gpus=4)]
    room = room_of(two, None, (), {})
    assert (room.gpus, room.gpus_free) == (8, 5)
    assert room.fits(big[0])
    room.take(big[0])
    assert room.placed == {big[0].id: "n2"}
    assert room.gpus_free == 1
    found = decided([row(gpus=8)], two)
    assert whys(found) == ["it needs 8 GPUs, and no node has more than 4"]


def test_of_each_line_as_many_runs_wait_in_a_full_slurm_as_it_has_nodes():
    full = cluster(
        node("n1", {"h100": 1}, {"h100": 0}), node("n2", {"h100": 1}, {"h100": 0})
    )
    rows = [row("a", gpus=1) for _ in range(3)] + [row("b", gpus=1)]
    found = decided(rows, full)
    assert [one.team for one in found.starts] == ["a", "b"]
    assert whys(found) == ["2 runs before it in Slurm's queue", "3 runs before it"]
    assert [one.ahead for one in found.standings.values()] == [2, 3]


def test_nothing_more_is_handed_over_while_enough_waits_in_slurm():
    full = cluster(node("n1", {"h100": 1}, {"h100": 0}))
    first, seen = pending(row(gpus=1))
    found = decided([first, row(gpus=1)], full, seen)
    assert found.starts == ()
    (standing,) = found.standings.values()
    assert standing.ahead == 1


def test_a_run_that_slurm_holds_back_is_not_overtaken_by_one_that_would_fit():
    one = cluster(node("n1", {"h100": 4}, {"h100": 2}))
    first, seen = pending(row(gpus=4))
    small = row(gpus=1)
    found = decided([first, small], one, seen)
    assert found.starts == ()
    assert found.standings[small.id].ahead == 1


def test_runs_for_other_models_and_runs_without_gpus_do_not_wait_for_each_other():
    mixed = cluster(
        node("n1", {"h100": 1}, {"h100": 0}), node("n2", {"a100": 1}, cores=4)
    )
    held, seen = pending(row(gpus=1, gpu_model="h100"))
    again, more = pending(row(gpus=1, gpu_model="h100"))
    rows = [held, again, row(gpus=1, gpu_model="h100")]
    others = [row(gpus=1, gpu_model="a100"), row()]
    found = decided([*rows, *others], mixed, seen | more)
    assert set(found.starts) == set(others)


def test_a_model_that_no_node_has_is_said():
    found = decided([row(gpus=1, gpu_model="h200")], cluster(node("n1", {"h100": 8})))
    assert whys(found) == ["it needs a GPU of the model h200, and no node has one"]
    found = decided([row(gpus=1)], cluster(node("n1")))
    assert whys(found) == ["it needs a GPU, and no node has one"]


def test_a_run_that_is_alone_takes_an_idle_node_and_others_go_on_beside_it():
    two = cluster(node("n1", {"h100": 2}, cores_free=7), node("n2", {"h100": 2}))
    alone = row("a", gpus=1, alone=True, gpu_model="h100")
    room = room_of(two, None, (), {})
    room.take(alone)
    assert room.placed == {alone.id: "n2"}
    assert room.gpus_free == 2
    found = decided([alone, row("b", gpus=1), row("c")], two)
    assert len(found.starts) == 3
    assert found.room.gpus_free == 1


def test_a_run_that_is_alone_waits_for_an_idle_node():
    busy = cluster(node("n1", {"h100": 2}, cores_free=7))
    first, seen = pending(row(alone=True))
    found = decided([first, row(alone=True)], busy, seen)
    assert whys(found) == ["1 run before it in Slurm's queue"]


def test_nothing_is_placed_on_a_node_that_a_run_has_to_itself():
    facts = cluster(node("n1", cores=4), at=0.0)
    alone = going(row(alone=True), at=NOW)
    seen = {alone.id: HostRun(alone.id, True, False, node="n1")}
    room = room_of(facts, None, [alone], seen)
    assert room.slots_free == 0
    room.give(alone)
    assert room.slots_free == 4


def test_nodes_that_are_out_take_no_run_and_are_named():
    drained = node("n2", {"h100": 4}, out="is drained: a fan is broken")
    facts = cluster(node("n1", {"h100": 1}, {"h100": 0}), drained)
    held, seen = pending(row(gpus=1))
    found = decided([held, row(gpus=1), row(gpus=2), row(gpus=8)], facts, seen)
    out = "node n2 is drained: a fan is broken"
    assert whys(found) == [
        f"1 run before it in Slurm's queue; {out}",
        out,
        f"it needs 8 GPUs, and no node has more than 4; {out}",
    ]
    assert found.room.gpus == 1


def test_many_nodes_that_are_out_are_counted():
    gone = [node(f"n{n}", out="is down") for n in range(9)]
    found = decided([row()], cluster(*gone))
    (text,) = whys(found)
    assert text == (
        "node n0 is down; node n1 is down; node n2 is down; and 6 more nodes"
    )


def test_runs_that_began_after_the_cluster_was_asked_take_room():
    one = going(row(), at=NOW)
    seen = {one.id: HostRun(one.id, True, False, node="n1")}
    assert room_of(cluster(node(), at=NOW), None, [one], seen).slots_free == 7
    late = cluster(node(cores_free=7), at=NOW + 60)
    assert room_of(late, None, [one], seen).slots_free == 7


def test_a_node_has_slots_for_its_cores_or_as_many_as_the_server_allows():
    assert room_of(cluster(node(cores=8)), None, (), {}).slots == 8
    assert room_of(cluster(node(cores=8, cores_free=3)), None, (), {}).slots_free == 3
    assert room_of(cluster(node(cores=8)), 2, (), {}).slots_free == 2


def test_no_run_waits_in_slurm_that_only_the_server_s_own_bound_keeps_back():
    rules = replace(FREE, slots=1)
    found = decided([row() for _ in range(3)], cluster(node(cores=8)), rules=rules)
    assert len(found.starts) == 1
    full = cluster(node(cores=8, cores_free=0))
    assert len(decided([row(), row()], full, rules=rules).starts) == 1


def test_runs_without_gpus_are_spread_and_leave_nodes_with_gpus_to_others():
    facts = cluster(node("g", {"h100": 8}), node("n1", cores=2), node("n2", cores=2))
    room = room_of(facts, None, (), {})
    runs = [row() for _ in range(5)]
    for one in runs:
        room.take(one)
    names = [room.placed[one.id] for one in runs]
    assert sorted(names[:4]) == ["n1", "n1", "n2", "n2"]
    assert names[0] != names[1]
    assert names[4] == "g"


def test_how_long_it_takes_is_played_with_the_runs_that_slurm_holds_first():
    history = QueueHistory()
    history.note_end("a", "cpu", 100.0)
    busy = going(row("a"), at=NOW - 40)
    held, seen = pending(row("a"))
    facts = cluster(node(cores=2, cores_free=0))
    seen[busy.id] = HostRun(busy.id, True, False, node="n1")
    last = row("a")
    found = decided([busy, held, last], facts, seen, history=history)
    assert found.starts == ()
    assert found.standings[last.id].estimate_s == 160.0


def test_a_team_s_bound_counts_the_runs_that_slurm_holds():
    rules = ServerRules(roles={"student": Role("student", at_once=1)})
    held, seen = pending(row("a"))
    waits = row("a")
    found = decided([held, waits, row("b")], cluster(node(), node("n2")), seen, rules)
    assert [one.team for one in found.starts] == ["b"]
    assert found.standings[waits.id].why.startswith("your team has 1 run going")


def test_runs_that_wait_in_slurm_for_what_no_node_lacks_here_keep_no_others_back():
    """Such as for memory, of which the room knows nothing."""
    first, seen = pending(row("a"))
    second, more = pending(row("a"))
    other = row("b")
    free = cluster(node("n1"), node("n2"))
    found = decided([first, second, other], free, {**seen, **more})
    assert found.starts == (other,)
    busy = cluster(node("n1", cores_free=0), node("n2", cores_free=0))
    assert decided([first, second, other], busy, {**seen, **more}).starts == ()
