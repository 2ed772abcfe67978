"""The nouns of a run, as frozen data.

Nothing here reads a file, a clock or a process. Units are in the names: ``_s`` seconds,
``_bytes`` bytes. Times of day are seconds since the epoch (UTC).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

MIB = 1 << 20
GIB = 1 << 30


class State(StrEnum):
    """Where a run stands."""

    NEW = "new"
    PACKED = "packed"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    COLLECTING = "collecting"
    DONE = "done"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether nothing follows this state."""
        return not STEPS[self]


STEPS: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.PACKED, State.DONE, State.CANCELLED, State.LOST}),
    State.PACKED: frozenset(
        {State.QUEUED, State.PREPARING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.QUEUED: frozenset({State.PREPARING, State.DONE, State.CANCELLED, State.LOST}),
    State.PREPARING: frozenset(
        {State.RUNNING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.RUNNING: frozenset(
        {State.COLLECTING, State.DONE, State.CANCELLED, State.LOST}
    ),
    State.COLLECTING: frozenset({State.DONE, State.CANCELLED, State.LOST}),
    State.DONE: frozenset(),
    State.CANCELLED: frozenset(),
    State.LOST: frozenset(),
}
"""The allowed steps, and no others."""


class Reason(StrEnum):
    """Why something ended: the one closed list, with its exit code and advice."""

    exit_code: int
    advice: str

    def __new__(cls, value: str, exit_code: int, advice: str) -> Reason:
        """Make a member that is its own word and carries exit code and advice."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = exit_code
        member.advice = advice
        return member

    DONE = "done", 0, "Nothing to do."
    COMMAND_FAILED = (
        "command_failed",
        1,
        "Read the output of the failing command; --keep-going runs the rest as well.",
    )
    USAGE = "usage", 2, "See `rai --help`."
    BAD_SPEC = "bad_spec", 2, "Mend the build file; `rai validate` checks it."
    BAD_CONFIG = "bad_config", 2, "Mend the settings file or the variable it names."
    BUILD_FAILED = (
        "build_failed",
        3,
        "Read the failing step above; `docker build .` in the project repeats it.",
    )
    IMAGE_NOT_FOUND = (
        "image_not_found",
        3,
        "Check the image's name and that its registry is reached from here.",
    )
    WRONG_ANSWER = "wrong_answer", 4, "The program ran, and its answer is not right."
    TIME_LIMIT = (
        "time_limit",
        5,
        "Give more time in resources.limits.time or the command's timeout.",
    )
    MEMORY_LIMIT = (
        "memory_limit",
        6,
        "Use less memory, or ask for more in resources.limits.memory.",
    )
    OUTPUT_LIMIT = (
        "output_limit",
        6,
        "Print less, or ask for more in resources.limits.output.",
    )
    DISK_LIMIT = (
        "disk_limit",
        6,
        "Write less to /build, or ask for more in resources.limits.disk.",
    )
    PIDS_LIMIT = (
        "pids_limit",
        6,
        "Start fewer processes, or ask for more in resources.limits.pids.",
    )
    REGRESSION = "regression", 7, "The new figures are worse than the old ones."
    RATE_LIMIT = "rate_limit", 8, "Wait, and try again."
    BUSY = "busy", 8, "Try again later, or wait longer with --wait."
    NOT_ALLOWED = (
        "not_allowed",
        9,
        "Ask for less, or have the site's policy changed.",
    )
    INTERNAL = (
        "internal",
        10,
        "This is a defect of rai or its machine: repeat with --debug and report it.",
    )
    RUNNER_LOST = "runner_lost", 10, "The process that held the run died: run it again."
    GPU_ERROR = "gpu_error", 10, "See `rai doctor`."
    NO_ENGINE = (
        "no_engine",
        11,
        "Start a Docker Engine, or install bubblewrap; `rai doctor` says what is here.",
    )
    NO_GPU = (
        "no_gpu",
        11,
        "Run where a GPU is, or set resources.gpu.optional: true.",
    )
    CANCELLED = "cancelled", 130, "It was stopped on request."


class Severity(StrEnum):
    """Whether a problem stops the run."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Place:
    """A spot in a text file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding: what is wrong, where, and what to do about it."""

    message: str
    place: Place | None = None
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        kind = "warning: " if self.severity is Severity.WARNING else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}{kind}{self.message}{hint}"


class Profile(StrEnum):
    """How tightly a run is confined."""

    STRICT = "strict"
    COMPATIBLE = "compatible"


class Stream(StrEnum):
    """Where a program's output went."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True)
class Command:
    """One entry of ``commands.build``; ``text`` is the line as written."""

    text: str
    name: str | None = None
    needs_gpu: bool = False
    continue_on_error: bool = False
    timeout_s: float | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """What ``resources.gpu`` asks for; architecture and memory are only notes."""

    count: int = 1
    optional: bool = False
    architecture: str = ""
    memory: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may use. ``network`` is off unless asked for."""

    time_s: float = 3600.0
    memory_bytes: int = 8 * GIB
    pids: int = 512
    output_bytes: int = 256 * MIB
    disk_bytes: int = 2 * GIB
    shm_bytes: int = 64 * MIB
    network: bool = False
    stop_grace_s: float = 10.0
    build_time_s: float = 1200.0
    open_files: int = 4096
    file_bytes: int = 2 * GIB


@dataclass(frozen=True, slots=True)
class DataResource:
    """A file that a spec asks for: its address, checksum and where it shall appear.

    ``directory`` is the folder of the file inside the run, ``file_name`` its name.
    """

    directory: str
    file_name: str
    url: str
    md5: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """Where a built image shall be pushed to."""

    image_name: str


@dataclass(frozen=True, slots=True)
class BuildImage:
    """``commands.build_image``: which Dockerfile, which target, which tag."""

    image_name: str | None = None
    dockerfile: str = "Dockerfile"
    target: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    no_cache: bool = False
    push: Push | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class BuildSpec:
    """A whole rai_build.yml, in types."""

    file: str
    version: str = ""
    image: str | None = None
    cpu_architecture: str = ""
    gpu: GpuRequest | None = None
    limits: Limits = Limits()
    data: tuple[DataResource, ...] = ()
    build_image: BuildImage | None = None
    commands: tuple[Command, ...] = ()

    @property
    def profile(self) -> Profile:
        """Compatible for a named image that is not built here, else strict."""
        named = self.image is not None and self.build_image is None
        return Profile.COMPATIBLE if named else Profile.STRICT


@dataclass(frozen=True, slots=True)
class Invocation:
    """How one command line is started, and why so.

    Without a shell ``argv`` is the program and its words. With one, ``script`` is the
    line for ``bash -o pipefail -c``, or ``sh -c`` where there is no bash.
    """

    argv: tuple[str, ...]
    why: str
    script: str | None = None

    @property
    def shell(self) -> bool:
        """Whether a shell reads the line."""
        return self.script is not None


@dataclass(frozen=True, slots=True)
class Step:
    """A command as an engine gets it; ``skip`` says why it is not to be run."""

    index: int
    command: Command
    invocation: Invocation
    skip: str | None = None


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed project: ``sha256`` is of the uncompressed tar stream."""

    path: Path
    sha256: str
    size_bytes: int
    raw_bytes: int
    members: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """One verified data file on this machine."""

    name: str
    path: Path
    md5: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class DataMount:
    """Data files that appear together, read-only, in one folder of the run."""

    directory: str
    files: tuple[DataFile, ...]

    @property
    def key(self) -> str:
        """A name for this very content."""
        text = "\n".join(f"{f.md5} {f.name}" for f in self.files)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class ImageAction(StrEnum):
    """What is done to have the image."""

    PULL = "pull"
    BUILD = "build"
    REUSE = "reuse"


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an engine knows that decides about an image.

    ``present`` maps every tag (and our own key tags) to an image id. ``context_sha256``
    covers every file that .dockerignore leaves; ``dockerfile`` is None where the named
    file does not exist.
    """

    present: Mapping[str, str]
    platform: str
    dockerfile: str | None = None
    context_sha256: str = ""


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """Pull, build or reuse, and why. ``reference`` is what the run starts from."""

    action: ImageAction
    reference: str
    why: str
    build: BuildImage | None = None
    key: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine is and which limits it cannot enforce for this user here."""

    name: str
    version: str = ""
    how: str = ""
    unenforced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workspace:
    """All that an engine needs to run the steps of one job.

    ``open_source`` gives the project as an uncompressed tar stream, names relative to
    the project's root. ``environment`` is complete but for what an engine must set.
    """

    run_id: str
    steps: tuple[Step, ...]
    open_source: Callable[[], BinaryIO]
    image: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = Limits()
    profile: Profile = Profile.STRICT
    data: tuple[DataMount, ...] = ()
    keep_going: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Three answers apart: did rai work, did the commands, is the answer right.

    ``passed`` is None when the job claims nothing about correctness.
    """

    served: bool
    ran: bool
    passed: bool | None
    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Inference:
    """What one run of a network printed; None and () for what it did not print.

    ``agreement`` belongs to synthetic images and is never an accuracy.
    """

    op_times_s: tuple[float, ...] = ()
    correctness: float | None = None
    model: str | None = None
    accuracy: float | None = None
    agreement: float | None = None

    @property
    def synthetic(self) -> bool:
        """Whether the images were made up."""
        return self.agreement is not None


@dataclass(frozen=True, slots=True)
class TimeUsage:
    """What GNU time, or a shell's ``time``, printed."""

    user_s: float
    system_s: float
    elapsed_s: float
    cpu_percent: int | None = None
    max_rss_kb: int | None = None


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One line of a profiler's table."""

    name: str
    percent: float
    total_s: float
    calls: int
    avg_s: float | None = None
    min_s: float | None = None
    max_s: float | None = None


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """One table of a profiler: ``section`` is e.g. "GPU activities" or "API calls"."""

    tool: str
    section: str
    rows: tuple[ProfileRow, ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that was found in a piece of output, in its order."""

    inferences: tuple[Inference, ...] = ()
    time_usage: tuple[TimeUsage, ...] = ()
    profiles: tuple[ProfileTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a run took place."""

    host: str
    system: str
    cpu: str
    cores: int
    memory_bytes: int
    python: str
    rai: str


@dataclass(frozen=True, slots=True)
class GitState:
    """The project's commit, and whether the folder differed from it."""

    commit: str
    branch: str = ""
    dirty: bool = False


@dataclass(frozen=True, slots=True)
class ImageUsed:
    """The image that a run started from."""

    reference: str
    digest: str
    action: ImageAction
    why: str


class Outcome(StrEnum):
    """What became of one command."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """One command in a record; times are None where it did not run."""

    index: int
    text: str
    name: str | None
    outcome: Outcome
    exit_code: int | None = None
    reason: Reason | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    oom_killed: bool = False
    findings: Findings = Findings()
    why: str = ""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run was and what came of it; derived from its events alone."""

    id: str
    project: str
    spec_file: str
    created_at: float
    state: State = State.NEW
    verdict: Verdict | None = None
    ended_at: float | None = None
    engine: EngineFacts | None = None
    profile: Profile | None = None
    limits: Limits | None = None
    machine: Machine | None = None
    git: GitState | None = None
    image: ImageUsed | None = None
    data: tuple[str, ...] = ()
    missing_data: tuple[str, ...] = ()
    archive_sha256: str = ""
    archive_bytes: int = 0
    commands: tuple[CommandRecord, ...] = ()
    peak_memory_bytes: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    build_bytes: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def findings(self) -> Findings:
        """All that was found in the commands' output, in the commands' order."""
        found = [command.findings for command in self.commands]
        return Findings(
            tuple(x for f in found for x in f.inferences),
            tuple(x for f in found for x in f.time_usage),
            tuple(x for f in found for x in f.profiles),
        )

    @property
    def synthetic(self) -> bool:
        """Whether any network ran on made-up images."""
        return any(i.synthetic for i in self.findings.inferences)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One run as it was asked for; ``why`` says why this engine serves it."""

    project: Path
    spec: BuildSpec
    spec_text: str
    steps: tuple[Step, ...]
    profile: Profile
    keep_going: bool = False
    warnings: tuple[str, ...] = ()
    why: str = ""
