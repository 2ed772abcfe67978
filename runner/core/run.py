"""One run: the record of its result."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from runner.core.build_spec import Check, Limits, Profile
from runner.core.errors import Reason, State, Verdict
from runner.core.figures import Findings, ProfileFile, Source, combined
from runner.core.gpu import GpuUse
from runner.core.quantities import Moment
from runner.core.work import EngineFacts, ImageAction


class Machine(Struct, frozen=True):
    """The machine that a run took place on."""

    host: str
    system: str
    cpu: str
    cores: int
    memory_bytes: int
    python: str
    rai: str


class GitState(Struct, frozen=True):
    """The project's commit, and whether its files differ from it (None if unknown)."""

    commit: str
    branch: str = ""
    dirty: bool | None = False


class ImageUsed(Struct, frozen=True):
    """The image that a run started from; ``cuda`` is its toolkit's version, if any.

    ``digest`` is "" where the engine does not know it. ``asked`` is the name in the
    build file, "" where it names none; ``named_by`` says what named another: the
    option, or the line of a settings file.
    """

    reference: str
    digest: str
    action: ImageAction
    why: str
    cuda: str = ""
    asked: str = ""
    named_by: str = ""

    @property
    def shown(self) -> str:
        """The name, and the beginning of the digest where it is known."""
        return self.reference + (f" ({self.digest[:19]})" if self.digest else "")


class Outcome(StrEnum):
    """The result of one command.

    It is wrong if it exited 0, and what it printed is not what the build file expects.
    It is unfinished if the run ended, or was lost, before the command's exit code was
    known.
    """

    RUNNING = "running"
    OK = "ok"
    FAILED = "failed"
    WRONG = "wrong"
    SKIPPED = "skipped"
    UNFINISHED = "unfinished"


class CommandRecord(Struct, frozen=True):
    """One command in a record; times are None if it did not run.

    ``checks`` are what the build file expects of it and what it printed. ``repeats`` is
    the index of the command that it repeats, None for one of the build file's own;
    ``round`` is 0 for these, and 1, 2, ... for repeats.
    """

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
    profile_files: tuple[ProfileFile, ...] = ()
    checks: tuple[Check, ...] = ()
    repeats: int | None = None
    round: int = 0

    @property
    def number(self) -> int:
        """Its place in the build file, from 1; of a repeat that of its command."""
        return (self.index if self.repeats is None else self.repeats) + 1


class RunRecord(Struct, frozen=True):
    """A run and its results, derived from its events alone.

    ``replays`` is the id of the earlier run that this one repeats. ``data_md5`` has the
    checksum of each data file, by its name in ``data``. ``env_given`` are the names of
    the variables given by ``-e``, whose values are not kept; ``only`` the commands that
    ``--only`` named. ``title`` says what it is of a submission or a bench, e.g. "final:
    measure"; ``inner`` that it only prepares a later run of the same submission.
    ``beside`` is the id of the run that was measured beside this one, round by round.
    ``repeat`` is how many rounds ``--repeat`` asked for.
    """

    id: str
    project: str
    spec_file: str
    created_at: Moment
    state: State = State.NEW
    verdict: Verdict | None = None
    ended_at: Moment | None = None
    engine: EngineFacts | None = None
    profile: Profile | None = None
    limits: Limits | None = None
    machine: Machine | None = None
    git: GitState | None = None
    image: ImageUsed | None = None
    gpu: GpuUse | None = None
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
    replays: str = ""
    data_md5: dict[str, str] = {}
    env_given: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    title: str = ""
    inner: bool = False
    beside: str = ""
    repeat: int = 1

    @property
    def hidden(self) -> bool:
        """Whether lists leave it out: it never ran, or the run that it prepared did."""
        reason = self.verdict.reason if self.verdict else None
        return reason is Reason.USAGE or (self.inner and reason is Reason.DONE)

    @property
    def first_round(self) -> tuple[CommandRecord, ...]:
        """The build file's commands, without their repeats."""
        return tuple(c for c in self.commands if c.repeats is None)

    @property
    def rounds(self) -> int:
        """How many rounds began."""
        return max((c.round for c in self.commands), default=0) + 1

    @property
    def findings(self) -> Findings:
        """The findings of all commands, in the commands' order, each with its command.

        Those of repeats are left out. Records of rai 0.1 have no command in figures.
        """
        return combined(map(_with_commands, self.first_round))

    @property
    def synthetic(self) -> bool:
        """Whether any network ran on synthetic images."""
        return any(i.synthetic for i in self.findings.inferences)


def _with_commands(record: CommandRecord) -> Findings:
    def named(source: Source) -> Source:
        if source.number is not None:
            return source
        name = record.name or record.text
        return replace(source, number=record.index + 1, command=name)

    found = record.findings
    return replace(
        found,
        inferences=tuple(replace(i, source=named(i.source)) for i in found.inferences),
        time_usage=tuple(replace(t, source=named(t.source)) for t in found.time_usage),
        profiles=tuple(replace(p, source=named(p.source)) for p in found.profiles),
        counters=tuple(replace(c, source=named(c.source)) for c in found.counters),
    )
