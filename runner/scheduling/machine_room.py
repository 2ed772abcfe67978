"""What room a machine has for runs, and which of those that wait fit into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto

from msgspec import Struct

from runner.scheduling.roles import ServerRules
from runner.scheduling.turns import Queued, QueuedRun, QueueLane, lane
from runner.wire.host import HostFacts


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

    def copy(self) -> MachineRoom:
        """Return another one of the same room."""
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


class Hold(Enum):
    """Why a run does not start now."""

    NOTHING = auto()
    """It starts."""

    TEAM = auto()
    """Its team has as many runs going as it may, or will with those before it."""

    NEVER = auto()
    """It needs more GPUs than there are in order."""

    BEHIND = auto()
    """Runs of its lane come before it."""

    ROOM = auto()
    """It is the next of its lane, and there is no room."""

    ALONE = auto()
    """It is the next of all, and needs the machine to itself."""

    MEASURED = auto()
    """A run that needs the machine to itself goes on or is the next."""


def judged(
    order: Sequence[Queued],
    aged: Sequence[Queued],
    room: MachineRoom,
    rules: ServerRules,
    *,
    only_starts: bool = False,
) -> Iterator[tuple[Queued, Hold]]:
    """Yield each run in its order, and what holds it; take the room of what starts.

    ``aged`` are the same runs by age. With ``only_starts`` the rest is left out once
    nothing more can start.
    """
    chances = _chances(aged, room, rules)
    closed: set[QueueLane] = set()
    quiet = room.alone
    for run in order:
        hold = chances.get(run.id, Hold.TEAM)
        if hold is Hold.NOTHING:
            hold = Hold.MEASURED if quiet else _hold(run, room, closed)
            quiet = quiet or (run.alone and hold in (Hold.NOTHING, Hold.ALONE))
        yield run, hold
        if only_starts and (quiet or closed >= {QueueLane.CPU, QueueLane.GPU}):
            return


def _hold(run: QueuedRun, room: MachineRoom, closed: set[QueueLane]) -> Hold:
    own = lane(run)
    if own in closed or (own is QueueLane.ALONE and closed):
        closed.add(own)
        return Hold.BEHIND
    if room.fits(run):
        room.take(run)
        return Hold.NOTHING
    if own is QueueLane.ALONE:
        return Hold.ALONE
    closed.add(own)
    return Hold.ROOM


def _chances(
    aged: Sequence[QueuedRun], room: MachineRoom, rules: ServerRules
) -> dict[str, Hold]:
    """Return the runs that are not held by their team, and those that cannot run.

    A team may have so many runs at once: its oldest ones have the first right to that,
    so that none waits for ever behind its own team's later ones.
    """
    left: dict[str, float] = {}
    found: dict[str, Hold] = {}
    for run in aged:
        if run.gpus > room.gpus:
            found[run.id] = Hold.NEVER
            continue
        team = run.team
        if team not in left:
            most = rules.role(run.role).at_once
            going = room.teams.get(team, 0)
            left[team] = float("inf") if most is None else most - going
        if left[team] > 0:
            left[team] -= 1
            found[run.id] = Hold.NOTHING
    return found
