"""One decision about a queue: what starts now, and how the others stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from msgspec import Struct, field

from runner.scheduling import cluster_room, machine_room, words
from runner.scheduling.estimates import estimates
from runner.scheduling.history import QueueHistory
from runner.scheduling.judging import Hold, RunRoom, judged
from runner.scheduling.machine_room import MachineRoom
from runner.scheduling.roles import ServerRules
from runner.scheduling.turns import Queued, QueuedRun, QueueLane, by_age, in_turn, lane
from runner.wire.host import HostFacts, HostRun
from runner.wire.remote_runs import QueueState


class WaitStanding(Struct, frozen=True, gc=False):
    """How a run stands that waits; the words are those of RemoteRun."""

    ahead: int
    why: str
    estimate_s: float | None = None


class QueueDecision(Struct, Generic[Queued], frozen=True):
    """What starts now, in this order, and how those stand that wait on.

    ``standings`` are in the order of the starts to come. ``note`` says why nothing
    starts at all, if so. ``room`` is what is left beside the runs that start.
    """

    starts: tuple[Queued, ...] = ()
    standings: Mapping[str, WaitStanding] = {}
    room: RunRoom = field(default_factory=lambda: MachineRoom(0, 0, 0, 0))
    note: str = ""


def decide(
    unfinished: Sequence[Queued],
    facts: HostFacts | None,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
    seen: Mapping[str, HostRun] | None = None,
    note: str = "",
) -> QueueDecision[Queued]:
    """Return what of a queue starts now.

    ``seen`` is what the host knows of active runs. Nothing starts where there is a
    ``note``, which says why, or no facts.
    """
    aged = by_age(run for run in unfinished if run.state is QueueState.WAITING)
    active = [run for run in unfinished if run.state is not QueueState.WAITING]
    order = in_turn(aged, history)
    if facts is None:
        facts = HostFacts("", ())
        note = note or words.NO_HOST
    seen = seen or {}
    room = _room(facts, rules, active, seen)
    if note:
        told = {run.id: WaitStanding(n, note) for n, run in enumerate(order)}
        return QueueDecision((), told, room, note)
    found = list(judged(order, aged, room, rules))
    starts = tuple(run for run, hold in found if hold is Hold.NOTHING)
    waits = [(run, hold) for run, hold in found if hold is not Hold.NOTHING]
    # Those that were handed over and wait at their place come before these.
    first = {run.id for run in room.waiting}
    behind: list[QueuedRun] = [*room.waiting, *(run for run, _ in waits)]
    others = [run for run in (*active, *starts) if run.id not in first]
    usual = estimates(behind, others, room, rules, history, now)
    return QueueDecision(starts, _standings(waits, room, rules, facts, usual), room)


def _room(
    facts: HostFacts,
    rules: ServerRules,
    active: Sequence[QueuedRun],
    seen: Mapping[str, HostRun],
) -> RunRoom:
    if facts.nodes:
        return cluster_room.room_of(facts, rules.slots, active, seen)
    held = {run_id: one.gpus for run_id, one in seen.items()}
    return machine_room.room_of(facts, rules.slots, active, held)


def _standings(
    waits: Sequence[tuple[Queued, Hold]],
    room: RunRoom,
    rules: ServerRules,
    facts: HostFacts,
    usual: Mapping[str, float],
) -> dict[str, WaitStanding]:
    standings = {}
    lanes: dict[QueueLane, int] = dict.fromkeys(QueueLane, 0)
    every: dict[QueueLane, int] = dict.fromkeys(QueueLane, 0)
    for run, hold in waits:
        own = lane(run)
        # A run that others may overtake is not ahead of them, only of its like.
        passed = hold is Hold.TEAM or hold is Hold.NEVER
        before = every if passed else lanes
        if not room.whole:
            ahead = before[own] + room.before(run)
        elif own is QueueLane.ALONE:
            ahead = sum(before.values())
        else:
            ahead = before[own] + before[QueueLane.ALONE]
        every[own] += 1
        if not passed:
            lanes[own] += 1
        why = words.why(run, hold, ahead, room, rules.role(run.role), facts)
        standings[run.id] = WaitStanding(ahead, why, usual.get(run.id))
    return standings
