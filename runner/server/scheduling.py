"""A server's rules, the runs of its queue, whose turn it is, and what room there is.

Teams take turns, in each lane by itself: runs with GPUs, and runs without. A team's
next run comes after the next ones of all other teams that wait in this lane; first
comes the team whose last start there is the longest ago. So however many runs a team
has waiting, it delays another team by one start.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct, field

from runner.core import GIB, Reason
from runner.core.policy import RolePolicy
from runner.core.quantities import DAY_S
from runner.core.wire import Capacity, QueueState

REMEMBERED = 20
"""So many of the latest runs of a team count for how long its next one takes."""

LANES = ("cpu", "gpu")
"""What runs wait for; those of one lane start in strict order."""

SUBMITTED, REHEARSED = 2_000_000_000, 1_999_999_999
"""The priorities of the runs of submissions and of rehearsals: above every role's."""

_ALL = ""
_Bytes = bytes  # QueueRow has a field of the usual name


class Role(Struct, frozen=True):
    """What a team of this role may do; None is no bound.

    ``ceilings`` are by the name of the field of Limits, ``images`` patterns of the only
    images. ``at_once`` runs of a team run at a time and ``waiting`` wait; ``a_day`` may
    be queued in any 24 hours, and once its GPUs were in use for ``gpu_a_day_s`` of them
    no run with a GPU starts. ``upload_bytes`` is what one project may have packed,
    ``disk_bytes`` what the uploads and runs of a team may take, ``keep_s`` how long a
    run is kept after its end. A higher ``priority`` starts first. On a cluster Slurm
    is asked for the ``account``, ``qos`` and ``partition``, "" for the usual ones.
    """

    name: str
    priority: int = 0
    ceilings: Mapping[str, float] = field(default_factory=dict)
    images: tuple[str, ...] | None = None
    at_once: int | None = None
    waiting: int = 100
    a_day: int | None = None
    gpu_a_day_s: float | None = None
    upload_bytes: int = 1 * GIB
    disk_bytes: int = 20 * GIB
    keep_s: float = 30 * DAY_S
    account: str = ""
    qos: str = ""
    partition: str = ""

    @property
    def policy(self) -> RolePolicy:
        """What a worker allows a run of this role."""
        source = f"the role `{self.name}` of this server"
        return RolePolicy(self.ceilings, self.images, source)

    @property
    def slurm(self) -> dict[str, str]:
        """What Slurm is asked for, by the names of sbatch's options."""
        names = ("account", "qos", "partition")
        return {name: value for name in names if (value := getattr(self, name))}


STUDENT = Role(
    "student",
    ceilings={"time_s": 600.0, "pids": 4096.0, "network": 0.0},
    at_once=2,
    a_day=200,
    gpu_a_day_s=7200.0,
)
STAFF = Role("staff", priority=10, waiting=1000)


class ServerRules(Struct, frozen=True):
    """The settings of a server: server.yml in its folder.

    ``slots`` is how many runs without a GPU run at a time; None makes it half of the
    machine's cores. Of a cluster, such as the ``place`` slurm:gpu, at most ``gpu_jobs``
    runs with a GPU and ``cpu_jobs`` without are in Slurm's queue at a time. No new run
    is taken while less than ``low_disk_bytes`` are free, and no submission while less
    than half of that is. ``term`` is what submissions are kept with, "" for none.
    """

    roles: Mapping[str, Role] = field(
        default_factory=lambda: {one.name: one for one in (STUDENT, STAFF)}
    )
    slots: int | None = None
    place: str = ""
    gpu_jobs: int = 16
    cpu_jobs: int = 64
    low_disk_bytes: int = 5 * GIB
    term: str = ""
    code_valid_s: float = 14 * DAY_S
    token_valid_s: float | None = 200 * DAY_S

    def least_free(self, *, submission: bool) -> int:
        """Return how much of the disk is left free by a run, or by a submission."""
        return self.low_disk_bytes // 2 if submission else self.low_disk_bytes

    def role(self, name: str) -> Role:
        """Return a role; one that the file no longer has may do what students may."""
        return self.roles.get(name) or self.roles.get(STUDENT.name) or STUDENT


class QueueRow(Struct, frozen=True):
    """A run of the queue, as the store keeps it. Times are seconds since 1970.

    ``digest`` is the SHA-256 of its request, by which a repeated request is known, and
    ``sha256`` that of its packed project. ``parcel`` is the parcel as JSON, and
    ``secrets`` has the values that it masks, as JSON; both are empty once the run has
    started or ended. Of two that wait that of the higher ``priority`` starts first.
    ``why`` says what a run waits for, or why it ended without a record. ``attempt``
    counts the starts that were tried. ``changed`` grows with each change of any run, so
    that readers can ask for news. ``submission`` is the number of the one whose run it
    is.
    """

    id: str
    team: str
    person: str
    role: str
    digest: str
    sha256: str
    queued_at: float
    project: str = ""
    gpus: int = 0
    priority: int = 0
    parcel: _Bytes = b""
    secrets: str = ""
    state: QueueState = QueueState.WAITING
    why: str = ""
    attempt: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    reason: Reason | None = None
    cancelled: bool = False
    bytes: int = 0
    removed: bool = False
    changed: int = 0
    submission: int | None = None

    @property
    def unbound(self) -> bool:
        """Whether no bound of its team's role holds it: it is not only rehearsed."""
        return self.submission is not None and self.priority == SUBMITTED

    @property
    def lane(self) -> str:
        """Its lane."""
        return "gpu" if self.gpus else "cpu"


class QueueHistory:
    """When teams last had a run started, by lane, and how long their runs took.

    It only serves turns and estimates, and can be made again from the runs of a day.
    """

    def __init__(self) -> None:
        self._started: dict[tuple[str, str], tuple[float, int]] = {}
        self._starts = 0
        self._took: dict[tuple[str, str], deque[float]] = {}

    def note_start(self, team: str, lane: str, at: float) -> None:
        """Note that a team had a run started; of one moment the later call is later."""
        self._starts += 1
        start = at, self._starts
        self._started[team, lane] = max(start, self.last_start(team, lane))

    def note_end(self, team: str, lane: str, took_s: float) -> None:
        """Note how long a run took."""
        for name in (team, _ALL):
            took = self._took.setdefault((name, lane), deque(maxlen=REMEMBERED))
            took.append(max(took_s, 0.0))

    def last_start(self, team: str, lane: str) -> tuple[float, int]:
        """Return when a team last had a run started; minus infinity for never.

        The number tells the starts of one moment apart, as of one decision.
        """
        return self._started.get((team, lane), (-math.inf, 0))

    def usual_s(self, team: str, lane: str) -> float | None:
        """Return how long a run should take: the median of the team's, or of all."""
        took = self._took.get((team, lane)) or self._took.get((_ALL, lane))
        return median(took) if took else None


def by_age(waiting: Iterable[QueueRow]) -> list[QueueRow]:
    """Return runs as one team would start them: by priority, then as they came."""
    return sorted(waiting, key=lambda run: (-run.priority, run.queued_at, run.id))


def in_turn(aged: Sequence[QueueRow], history: QueueHistory) -> list[QueueRow]:
    """Return runs, which are sorted by age, in the order of their starts."""
    turns: Counter[tuple[int, str, str]] = Counter()
    keyed = []
    for run in aged:
        lane = run.lane
        mine = (run.priority, run.team, lane)
        last = history.last_start(run.team, lane)
        keyed.append((-run.priority, turns[mine], last, run.queued_at, run.id, run))
        turns[mine] += 1
    keyed.sort()  # ids differ, so runs are not compared
    return [item[-1] for item in keyed]


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
    in_slurm: bool = False
    gpu_use: Mapping[str, GpuDay] = {}
    teams: Counter[str] = field(default_factory=Counter)

    def spent(self, run: QueueRow, role: Role) -> bool:
        """Whether a run needs a GPU, and its team had GPUs as long as it may."""
        use, most = self.gpu_use.get(run.team), role.gpu_a_day_s
        asks = run.gpus and not run.unbound
        return bool(asks and use and most is not None and use.seconds >= most)

    def never(self, run: QueueRow) -> bool:
        """Whether a run has no room even where nothing else runs."""
        return not self.in_slurm and run.gpus > self.gpus

    def fits(self, run: QueueRow) -> bool:
        """Whether a run can start now, but for its team."""
        return self._gpus(run) <= self.gpus_free if run.gpus else self.slots_free > 0

    def take(self, run: QueueRow, runs: int = 1) -> None:
        """Count a run as going on, or as ended with -1 ``runs``."""
        self.teams[run.team] += runs
        if run.gpus:
            self.gpus_free -= runs * self._gpus(run)
        else:
            self.slots_free -= runs

    def _gpus(self, run: QueueRow) -> int:
        return min(run.gpus, 1) if self.in_slurm else run.gpus


def room_of(
    facts: Capacity,
    rules: ServerRules,
    active: Sequence[QueueRow],
    held: Mapping[str, Sequence[str]],
    gpu_use: Mapping[str, GpuDay] = {},
) -> RunRoom:
    """Return the room that is left beside the runs that go on.

    ``held`` are the UUIDs of the GPUs that runs hold, by their ids, as far as
    that is known.
    """
    healthy = {gpu.uuid for gpu in facts.gpus if not gpu.out}
    gpus = len(healthy)
    slots = max(1, facts.cores // 2) if rules.slots is None else rules.slots
    if facts.in_slurm:
        gpus, slots = rules.gpu_jobs, rules.cpu_jobs
    room = RunRoom(gpus, gpus, slots, slots, facts.in_slurm, gpu_use)
    for run in active:
        room.take(run)
    if not facts.in_slurm:
        # A run may hold a GPU that is out by now, and others than it asked for.
        names = [held.get(run.id, ()) for run in active]
        unknown = sum(
            max(0, run.gpus - len(known))
            for run, known in zip(active, names, strict=True)
        )
        room.gpus_free = len(healthy.difference(*names)) - unknown
    room.gpus_free, room.slots_free = max(0, room.gpus_free), max(0, room.slots_free)
    return room
