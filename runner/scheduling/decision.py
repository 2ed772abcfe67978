"""One decision about a queue: what starts now, and how the others stand."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Generic

from msgspec import Struct, field

from runner.scheduling import cluster_room, words
from runner.scheduling.estimates import estimates
from runner.scheduling.history import QueueHistory
from runner.scheduling.judging import Hold, RunRoom, judged
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
    return room_of(facts, rules.slots, active, held)


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


class MachineRoom(Struct):
    """What is free of a machine, and how many runs go on; changed by ``take``.

    ``gpus`` and ``slots`` are what it has, but for GPUs that are out. ``alone`` is
    whether a run that goes on has the machine to itself.
    """

    gpus: int
    gpus_free: int
    slots: int
    slots_free: int
    going: int = 0
    alone: bool = False
    teams: dict[str, int] = {}

    @property
    def whole(self) -> bool:
        """Whether a run that wants to be alone takes all that there is."""
        return True

    def line(self, run: QueuedRun) -> Hashable:
        """Return what a run waits for; those that wait for the same start in order."""
        return lane(run)

    def full(self, closed: Collection[Hashable]) -> bool:
        """Whether nothing more starts once these lines are closed."""
        return QueueLane.CPU in closed and QueueLane.GPU in closed

    def never(self, run: QueuedRun) -> bool:
        """Whether a run has no room even where nothing else runs."""
        return run.gpus > self.gpus

    @property
    def waiting(self) -> Sequence[QueuedRun]:
        """The runs that were handed over and wait: none."""
        return ()

    def before(self, run: QueuedRun) -> int:
        """Return how many runs were handed over, wait, and start before it: none."""
        return 0

    def fits(self, run: QueuedRun) -> bool:
        """Whether a run can start now, but for its team."""
        if self.alone or (run.alone and self.going):
            return False
        return run.gpus <= self.gpus_free if run.gpus else self.slots_free > 0

    def take(self, run: QueuedRun) -> None:
        """Count a run as going on."""
        self._count(run, 1)
        self.alone = self.alone or run.alone

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended."""
        self._count(run, -1)
        self.alone = self.alone and not run.alone

    def played(self) -> MachineRoom:
        """Return another one of the same room, to play runs through."""
        return MachineRoom(
            self.gpus,
            self.gpus_free,
            self.slots,
            self.slots_free,
            self.going,
            self.alone,
            dict(self.teams),
        )

    def _count(self, run: QueuedRun, more: int) -> None:
        self.going += more
        self.teams[run.team] = self.teams.get(run.team, 0) + more
        if run.gpus:
            self.gpus_free -= more * run.gpus
        else:
            self.slots_free -= more


def room_of(
    facts: HostFacts,
    slots: int | None,
    active: Sequence[QueuedRun],
    held: Mapping[str, Sequence[str]],
) -> MachineRoom:
    """Return the room that is left beside the runs that go on.

    ``held`` are the UUIDs of the GPUs that runs hold, by their ids, as far as the host
    has said so.
    """
    healthy = {gpu.uuid for gpu in facts.gpus if not gpu.out}
    places = max(1, facts.cores // 2) if slots is None else slots
    room = MachineRoom(len(healthy), len(healthy), places, places, teams={})
    taken: set[str] = set()
    unknown = 0
    for run in active:
        room.take(run)
        names = held.get(run.id, ())
        taken.update(names)
        unknown += max(0, run.gpus - len(names))
    # A run may hold a GPU that is out by now, and others than it asked for.
    room.gpus_free = max(0, len(healthy - taken) - unknown)
    room.slots_free = max(0, room.slots_free)
    return room
