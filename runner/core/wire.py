"""What a server, its clients and its workers write to each other, as typed data."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct, json

from runner.core.errors import Problem, Reason
from runner.core.measurement import Measurement
from runner.core.milestone import Trust
from runner.core.quantities import Moment

API = "/api/v1"
API_VERSION = 1

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


class Scope(StrEnum):
    """What a token is good for."""

    RUN = "run"
    STAFF = "staff"


class ServerFacts(Struct, frozen=True):
    """What a server says to everybody: `GET /api/v1/`.

    ``least_client`` is the oldest version of rai that it serves, ``time`` seconds since
    1970. Unknown ``features`` are ignored.
    """

    version: str
    api: int
    least_client: str
    time: float
    features: tuple[str, ...] = ()


class LoginRequest(Struct, frozen=True):
    """`POST /api/v1/login`: a one-time code; ``device`` names the client."""

    code: str
    device: str = ""


class LoginCode(Struct, frozen=True):
    """`POST /api/v1/codes`: a one-time code for another login of who asks for it."""

    code: str
    expires_at: float


class RoleLimits(Struct, frozen=True):
    """What is left to a person's team, and what one run of it may ask for.

    None means that there is no bound. ``resets_at`` is when ``left_today`` grows again.
    """

    at_once: int | None = None
    left_today: int | None = None
    resets_at: float | None = None
    gpu_left_s: float | None = None
    upload_bytes: int | None = None
    disk_bytes: int | None = None
    disk_used: int = 0
    network: bool = True
    own_images: bool = True


class Me(Struct, frozen=True):
    """`GET /api/v1/me`: whose token it is, and what it allows."""

    person: str
    team: str
    role: str
    token_id: str
    scopes: tuple[Scope, ...]
    expires_at: float | None
    limits: RoleLimits = RoleLimits()


class LoginAnswer(Struct, frozen=True):
    """The token, which is shown once, and whose it is."""

    token: str
    me: Me


class ServerGpu(Struct, frozen=True):
    """A GPU of a server; ``out`` says why no run gets it, "" if runs do.

    ``compute`` is e.g. "9.0".
    """

    uuid: str
    name: str
    out: str = ""
    compute: str = ""


class Capacity(Struct, frozen=True):
    """What can run now; ``problems`` say why nothing can.

    ``engines`` are the names of those that can serve, the usual one first;
    ``memory_bytes`` and ``disk_free`` are the machine's. Where Slurm runs things
    ``home`` is the folder of the runs, which its nodes have to see, and ``node_gpus``
    the most GPUs that one node has, None until Slurm has answered; a single machine has
    neither. ``unenforced`` has a line for each engine with limits that it does not
    enforce.
    """

    version: str
    engines: tuple[str, ...]
    gpus: tuple[ServerGpu, ...] = ()
    problems: tuple[Problem, ...] = ()
    disk_free: int = 0
    memory_bytes: int = 0
    cores: int = 1
    node_gpus: int | None = None
    home: str = ""
    unenforced: tuple[str, ...] = ()

    @property
    def unranked(self) -> str:
        """Why nothing can be ranked here, "" if it can."""
        # Where times are compared these have to be enforced; Slurm does so by itself.
        ranked = ("memory", "pids")
        for line in self.unenforced:
            name, _, limits = line.partition(": ")
            lacking = [one for one in limits.split(", ") if one in ranked]
            if name in self.engines[:1] and lacking:
                return f"the engine {name} does not enforce {' and '.join(lacking)}"
        return ""

    @property
    def in_slurm(self) -> bool:
        """Whether Slurm runs things."""
        return bool(self.home)


class Refusal(Struct, frozen=True, omit_defaults=True):
    """What a server answers in place of what was asked for.

    ``status`` is the HTTP status. ``reason`` decides the client's exit code, as for a
    run here. ``retry_at`` is when the same request may succeed, in seconds since 1970.
    """

    status: int
    title: str
    reason: Reason = Reason.INTERNAL
    problems: tuple[Problem, ...] = ()
    retry_at: float | None = None


MOST_WHY = 200
"""Characters of why a queue is drained."""


class QueueState(StrEnum):
    """Where a run stands on a server.

    STARTING runs were given to a worker, and may or may not have begun.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class RemoteRun(Struct, frozen=True):
    """A run on a server.

    ``ahead`` is the number of runs that start before it, ``estimate_s`` after how many
    seconds it should start, both only while it waits; ``why`` says in words what it
    waits for, or why it ended without a record. Times are seconds since 1970.
    ``mine`` tells whether it is the asking team's; of others' runs ``person`` and
    ``project`` are empty.
    """

    id: str
    state: QueueState
    team: str
    queued_at: float
    person: str = ""
    project: str = ""
    gpus: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    ahead: int | None = None
    estimate_s: float | None = None
    why: str = ""
    reason: Reason | None = None
    cancelled: bool = False
    mine: bool = True


class DrainRequest(Struct, frozen=True):
    """`PUT /api/v1/queue/drain`, of staff: why no run starts; "" starts them again."""

    why: Annotated[str, Meta(max_length=MOST_WHY)]


class QueueView(Struct, frozen=True):
    """`GET /api/v1/queue`: what runs and what waits, in the order of their starts.

    ``note`` says why nothing starts, if so. Of a long queue ``left_out`` runs of other
    teams are not among those that wait. With ``in_slurm`` Slurm has GPUs and slots:
    they are then how many runs with a GPU, and without, may be in its queue.
    """

    running: tuple[RemoteRun, ...]
    waiting: tuple[RemoteRun, ...]
    gpus: int
    gpus_free: int
    slots: int
    slots_free: int
    note: str = ""
    left_out: int = 0
    in_slurm: bool = False


class RunPage(Struct, frozen=True):
    """`GET /api/v1/runs?state=&after=&limit=`; ``after`` begins the next page."""

    runs: tuple[RemoteRun, ...]
    after: str = ""


Line = Annotated[str, Meta(max_length=4096)]
RunId = Annotated[str, Meta(pattern="^[0-9a-f]{10}$")]


class Decision(StrEnum):
    """What staff decided about a submission, whatever its verdict is."""

    COUNT = "count"
    ANNUL = "annul"


class SubmissionRequest(Struct, frozen=True):
    """`PUT /api/v1/submissions/{key}`: what was uploaded is a submission.

    ``upload`` is the SHA-256 of the upload, ``project`` the client's folder as shown,
    ``commit`` its commit, "" for none.
    """

    milestone: Line
    upload: Line
    rehearsal: bool = False
    project: Line = ""
    commit: Line = ""


class StageRun(Struct, frozen=True):
    """A run of a submission by its id, and how it ended; ``reason`` is None before."""

    name: Line
    run: RunId
    reason: Reason | None = None
    why: str = ""


class Submission(Struct, frozen=True):
    """A submission, from its receipt to its verdict. Times are seconds since 1970.

    ``received_at`` is the server's time, at which its bytes were whole and durable;
    ``late_s`` is how long that is after the deadline, 0.0 in time. It is the team's
    ``attempt`` of ``attempts``; one that is not ``charged`` uses none. ``runs`` are in
    the order of their starts, repeated ones too. ``reason`` and ``message`` are the
    verdict, None and "" before; ``measured`` has no samples. Staff may have ``decided``
    about it, and why is told. ``rerun_of`` is the number of the submission that it
    measures again. Once its term is ``closed`` the server no longer keeps its bytes and
    runs for good. ``counts`` says whether it is the one that counts now, ``points``
    what it would earn, and ``marks`` what staff may want to look at; the store keeps
    none of the three.
    """

    number: int
    key: str
    team: str
    person: str
    role: str
    milestone: str
    trust: Trust
    term: str
    sha256: str
    project: str
    commit: str
    received_at: Moment
    late_s: Moment
    attempt: int
    attempts: int | None
    rehearsal: bool
    charged: bool
    chosen: bool = False
    runs: tuple[StageRun, ...] = ()
    reason: Reason | None = None
    message: str = ""
    ended_at: Moment | None = None
    measured: Measurement | None = None
    decided: Decision | None = None
    decided_why: str = ""
    rerun_of: int | None = None
    closed: bool = False
    counts: bool = False
    points: float | None = None
    marks: tuple[str, ...] = ()

    @property
    def going(self) -> StageRun | None:
        """The run that it waits for; None before the first, and between two."""
        last = self.runs[-1] if self.runs else None
        return last if last and last.reason is None else None

    @property
    def may_count(self) -> bool:
        """Whether it ended well, and nothing speaks against its counting."""
        if self.rehearsal or self.rerun_of is not None:
            return False
        if self.decided is not None:
            return self.decided is Decision.COUNT
        uncounted = self.measured is not None and not self.measured.counts
        return self.reason is Reason.DONE and not uncounted


class SubmissionPage(Struct, frozen=True):
    """`GET /api/v1/submissions?milestone=&all=`, the newest first."""

    submissions: tuple[Submission, ...]


class MilestoneView(Struct, frozen=True):
    """A milestone, and what the asking team did for it; ``last`` is its latest one."""

    name: str
    title: str
    trust: Trust
    deadline: Moment | None = None
    closed: bool = False
    attempts: int | None = None
    used: int = 0
    last: Submission | None = None


class MilestonePage(Struct, frozen=True):
    """`GET /api/v1/milestones`.

    ``gpu`` and ``architecture`` are those of the GPU that is measured on, "" where that
    is not known.
    """

    milestones: tuple[MilestoneView, ...]
    gpu: str = ""
    architecture: str = ""


class TeamStanding(Struct, frozen=True):
    """A team's place on a leaderboard.

    ``name`` is the team's for itself and for staff, and else the name that others see
    for the term; then times are those of days, and there is no variant and no number.
    Where it was measured again, time, ratio and interval are of these ``reruns``: their
    medians, and their range.
    """

    rank: int
    name: str
    own: bool
    variant: str
    ms: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    late_s: float
    received_at: Moment
    number: int
    reruns: int = 0


class Leaderboard(Struct, frozen=True, rename={"accuracy": "class"}):
    """What compares: one milestone, class, model of GPU and engine; the best first."""

    accuracy: str
    gpu: str
    engine: str
    standings: tuple[TeamStanding, ...]


class StandingsPage(Struct, frozen=True):
    """`GET /api/v1/standings/{milestone}`."""

    milestone: str
    title: str
    trust: Trust
    deadline: Moment | None
    boards: tuple[Leaderboard, ...]


FILES = ("stdout.log", "stderr.log", "events.jsonl")
STDOUT, STDERR, EVENTS = FILES
MOST_HEADER_BYTES = 64 << 10
MOST_TAIL_BYTES = 1 << 20
"""Of the three files together, in one answer."""

LONGEST_WAIT_S = 30
LEAST_S = 0.2
"""An answer that brings all there is takes so long, so that it brings more."""


Size = Annotated[int, Meta(ge=0, le=MOST_TAIL_BYTES)]


class TailHeader(Struct, frozen=True):
    """Where a run stands, and how many bytes of each file follow, in their order.

    ``more`` says that there are more already, ``over`` that the run has ended and
    nothing more comes; ``build`` is then the size of its archive, None if there is
    none. ``latest`` is what the running command uses: the text of latest.json.
    """

    run: RemoteRun
    stdout: Size = 0
    stderr: Size = 0
    events: Size = 0
    latest: str = ""
    more: bool = False
    over: bool = False
    build: int | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes that follow, by the names of their files."""
        return dict(zip(FILES, (self.stdout, self.stderr, self.events), strict=True))


def to_line(header: TailHeader) -> bytes:
    """Return an answer's first line."""
    return json.encode(header) + b"\n"


def from_line(line: bytes) -> TailHeader:
    """Parse an answer's first line; raise ValueError if it is none."""
    header = json.decode(line, type=TailHeader)
    if (size := sum(header.sizes.values())) > MOST_TAIL_BYTES:
        raise ValueError(f"{size:,} bytes in one answer")
    return header
