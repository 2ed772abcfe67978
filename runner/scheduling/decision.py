"""One decision about a queue: what starts now, and how the others stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic

from msgspec import Struct, field

from runner.core.ending import Reason, State
from runner.scheduling import words
from runner.scheduling.estimates import estimates
from runner.scheduling.history import QueueHistory
from runner.scheduling.judging import Hold, judged
from runner.scheduling.roles import ServerRules
from runner.scheduling.room import GpuDay, RunRoom, room_of
from runner.scheduling.turns import Queued, QueueLane, by_age, in_turn, lane
from runner.wire.capacity import Capacity
from runner.wire.remote_runs import QueueState


class RunStatus(Struct, frozen=True):
    """What a run's folder tells of it.

    ``claimed`` is False where no worker took it, and then nothing of it has run.
    ``ended`` is True once its record is written. ``gpus`` are the UUIDs that it holds
    or held. ``bytes`` is what its folder takes, once it has ended. ``waits`` says why a
    run has not begun that a cluster has in its queue.
    """

    id: str
    claimed: bool
    ended: bool
    state: State | None = None
    reason: Reason | None = None
    started_at: float | None = None
    ended_at: float | None = None
    gpus: tuple[str, ...] = ()
    bytes: int = 0
    waits: str = ""


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
    room: RunRoom = field(default_factory=RunRoom)
    note: str = ""


def decide(
    unfinished: Sequence[Queued],
    facts: Capacity | None,
    rules: ServerRules,
    history: QueueHistory,
    now: float,
    seen: Mapping[str, RunStatus] | None = None,
    note: str = "",
    gpu_use: Mapping[str, GpuDay] = {},
) -> QueueDecision[Queued]:
    """Return what of a queue starts now.

    ``seen`` is what the folders of active runs tell, ``gpu_use`` is by team. Nothing
    starts where there is a ``note``, which says why, or no facts.
    """
    aged = by_age(run for run in unfinished if run.state is QueueState.WAITING)
    active = [run for run in unfinished if run.state is not QueueState.WAITING]
    order = in_turn(aged, history)
    if facts is None:
        facts = Capacity("", ())
        note = note or words.NOT_LOOKED
    held = {run_id: one.gpus for run_id, one in (seen or {}).items()}
    room = room_of(facts, rules, active, held)
    room.gpu_use = gpu_use
    if note:
        told = {run.id: WaitStanding(n, note) for n, run in enumerate(order)}
        return QueueDecision((), told, room, note)
    found = list(judged(order, aged, room, rules))
    starts = tuple(run for run, hold in found if hold is Hold.NOTHING)
    waits = [(run, hold) for run, hold in found if hold is not Hold.NOTHING]
    behind = [run for run, _ in waits]
    usual = estimates(behind, [*active, *starts], room, rules, history, now)
    return QueueDecision(starts, _standings(waits, room, rules, facts, usual), room)


def _standings(
    waits: Sequence[tuple[Queued, Hold]],
    room: RunRoom,
    rules: ServerRules,
    facts: Capacity,
    usual: Mapping[str, float],
) -> dict[str, WaitStanding]:
    standings = {}
    lanes: dict[QueueLane, int] = dict.fromkeys(QueueLane, 0)
    every: dict[QueueLane, int] = dict.fromkeys(QueueLane, 0)
    for run, hold in waits:
        own = lane(run)
        # A run that others may overtake is not ahead of them, only of its like.
        passed = hold is Hold.TEAM or hold is Hold.NEVER
        ahead = (every if passed else lanes)[own]
        every[own] += 1
        if not passed:
            lanes[own] += 1
        why = words.why(run, hold, ahead, room, rules.role(run.role), facts)
        standings[run.id] = WaitStanding(ahead, why, usual.get(run.id))
    return standings
