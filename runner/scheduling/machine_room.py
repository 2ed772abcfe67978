"""What room a machine has for runs."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from msgspec import Struct

from runner.scheduling.turns import QueuedRun, QueueLane, lane
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
