"""The room that there is for runs: on a machine, or in Slurm's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.scheduling.roles import Role, ServerRules
from runner.scheduling.turns import QueuedRun
from runner.wire.capacity import Capacity


class GpuDay(Struct, frozen=True):
    """How long a team had GPUs in 24 hours, and when its first run of them began."""

    seconds: float
    since: float


class RunRoom(Struct):
    """What is free, and how many runs each team has going; changed by ``take``.

    ``gpus`` and ``slots`` are what a machine has, but for GPUs that are out. Of Slurm,
    which places runs itself, they are how many runs with a GPU and without may be in
    its queue, and ``in_slurm`` is true. ``gpu_use`` is by team.
    """

    gpus: int = 0
    gpus_free: int = 0
    slots: int = 0
    slots_free: int = 0
    teams: dict[str, int] = {}
    in_slurm: bool = False
    gpu_use: Mapping[str, GpuDay] = {}

    def spent(self, run: QueuedRun, role: Role) -> bool:
        """Whether a run needs a GPU, and its team had GPUs as long as it may."""
        use, most = self.gpu_use.get(run.team), role.gpu_a_day_s
        return bool(run.gpus and use and most is not None and use.seconds >= most)

    def never(self, run: QueuedRun) -> bool:
        """Whether a run has no room even where nothing else runs."""
        return not self.in_slurm and run.gpus > self.gpus

    def fits(self, run: QueuedRun) -> bool:
        """Whether a run can start now, but for its team."""
        return self._gpus(run) <= self.gpus_free if run.gpus else self.slots_free > 0

    def take(self, run: QueuedRun) -> None:
        """Count a run as going on."""
        self._count(run, 1)

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended."""
        self._count(run, -1)

    def copy(self) -> RunRoom:
        """Return another one of the same room."""
        return replace(self, teams=dict(self.teams))

    def _gpus(self, run: QueuedRun) -> int:
        return min(run.gpus, 1) if self.in_slurm else run.gpus

    def _count(self, run: QueuedRun, more: int) -> None:
        self.teams[run.team] = self.teams.get(run.team, 0) + more
        if run.gpus:
            self.gpus_free -= more * self._gpus(run)
        else:
            self.slots_free -= more


def room_of(
    facts: Capacity,
    rules: ServerRules,
    active: Sequence[QueuedRun],
    held: Mapping[str, Sequence[str]],
) -> RunRoom:
    """Return the room that is left beside the runs that go on.

    ``held`` are the UUIDs of the GPUs that runs hold, by their ids, as far as
    that is known.
    """
    healthy = {gpu.uuid for gpu in facts.gpus if not gpu.out}
    gpus = rules.gpu_jobs if facts.in_slurm else len(healthy)
    slots = max(1, facts.cores // 2) if rules.slots is None else rules.slots
    slots = rules.cpu_jobs if facts.in_slurm else slots
    room = RunRoom(gpus, gpus, slots, slots, {}, facts.in_slurm)
    taken: set[str] = set()
    unknown = 0
    for run in active:
        room.take(run)
        names = held.get(run.id, ())
        taken.update(names)
        unknown += max(0, run.gpus - len(names))
    if not facts.in_slurm:
        # A run may hold a GPU that is out by now, and others than it asked for.
        room.gpus_free = len(healthy - taken) - unknown
    room.gpus_free, room.slots_free = max(0, room.gpus_free), max(0, room.slots_free)
    return room
