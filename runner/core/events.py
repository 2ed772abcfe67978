"""The events of a run, one JSON line each, and how output is gathered into them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from itertools import groupby
from operator import itemgetter, or_

from msgspec import Struct, json
from msgspec.structs import asdict

from runner.core import screen
from runner.core.build_spec import Check, Limits, Profile
from runner.core.errors import Reason, State, Verdict
from runner.core.figures import Findings, ProfileFile
from runner.core.gpu import GpuUse
from runner.core.quantities import Moment
from runner.core.run import GitState, ImageUsed, Machine
from runner.core.work import EngineFacts, Stream


class RunEvent(Struct, frozen=True, tag=True, tag_field="event"):
    """Base of all events: in JSON an event has its name beside its fields."""


class Created(RunEvent, frozen=True):
    """A run begins: the first event of every run.

    ``replays`` is the id of the earlier run that this one repeats, if any.
    ``env_given`` are the names of the variables given by ``-e``, ``only`` the words of
    ``--only``. ``commands`` is how many commands the run has, 0 if that is not known.
    ``title`` says what it is of a submission or a bench, ``inner`` that it only
    prepares a later run of the same submission. ``beside`` is the id of the run that is
    measured beside this one, ``repeat`` how many rounds ``--repeat`` asks for.
    """

    run_id: str
    project: str
    spec_file: str
    git: GitState | None
    machine: Machine
    replays: str = ""
    env_given: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    commands: int = 0
    title: str = ""
    inner: bool = False
    beside: str = ""
    repeat: int = 1


class StateChanged(RunEvent, frozen=True):
    """The run changed its state."""

    state: State


class EngineChosen(RunEvent, frozen=True):
    """The engine that runs the job: how it confines, and what it cannot enforce."""

    engine: EngineFacts
    profile: Profile
    limits: Limits
    why: str = ""


class Packing(RunEvent, frozen=True):
    """The project is being packed."""


class Packed(RunEvent, frozen=True):
    """The project is in an archive."""

    sha256: str
    size_bytes: int
    members: int


class Warned(RunEvent, frozen=True):
    """Something the user should know; the run goes on."""

    text: str


class Progress(RunEvent, frozen=True):
    """How far a step has come; ``total`` None where it is unknown.

    ``task`` is "pack", "upload", "download NAME" or "pull"; ``done`` and ``total`` are
    in bytes. Shown, not recorded.
    """

    task: str
    done: float
    total: float | None


class Waiting(RunEvent, frozen=True):
    """The run waits for what ``why`` says before it prepares its image."""

    why: str


class DataReady(RunEvent, frozen=True):
    """A data file was found or downloaded, and its checksum is right."""

    name: str
    directory: str
    origin: str
    md5: str = ""


class DataMissing(RunEvent, frozen=True):
    """A data file is not available; the commands run without it."""

    name: str
    directory: str
    why: str


class BuildStarted(RunEvent, frozen=True):
    """An image build begins; ``unenforced`` are the limits that its builder ignores."""

    reference: str
    why: str
    builder: str
    unenforced: tuple[str, ...] = ()


class BuildOutput(RunEvent, frozen=True):
    """A piece of an image build's own output. Shown, not recorded."""

    text: str


class PullStarted(RunEvent, frozen=True):
    """An image is fetched from its registry."""

    reference: str


class ImageReady(RunEvent, frozen=True):
    """The image that the run starts from is ready."""

    image: ImageUsed


class Starting(RunEvent, frozen=True):
    """The container or sandbox is about to start; ``what`` says which."""

    what: str = "container"


class GpuBusy(RunEvent, frozen=True):
    """Others hold the GPUs that the run needs; it waits for ``wait_s`` at most."""

    why: str
    wait_s: float


class GpuGiven(RunEvent, frozen=True):
    """The container or sandbox has its GPUs.

    Sent again when the commands are ``over``: ``use`` then holds the GPUs' state after
    the run too, if they answer.
    """

    use: GpuUse
    over: bool = False


class CommandStarted(RunEvent, frozen=True):
    """A command begins.

    A repeat has an index of its own, after those of the build file. ``repeats`` is the
    index of the command that it repeats, ``round`` 0 for the first time, then 1, 2, ...
    """

    index: int
    text: str
    name: str | None = None
    repeats: int | None = None
    round: int = 0


NOT_REACHED = "the run ended first"
STOPPED = "the run was cancelled"
"""Why commands were skipped that had no turn."""


class CommandSkipped(RunEvent, frozen=True):
    """A command is not run."""

    index: int
    text: str
    why: str
    name: str | None = None


class Output(RunEvent, frozen=True):
    """Bytes that a command wrote, unchanged.

    An engine sets ``data``; the recorder sets ``offset`` and ``length``, the bytes'
    place in the log file.
    """

    index: int
    stream: Stream
    data: bytes = b""
    offset: int = 0
    length: int = 0


class Tick(RunEvent, frozen=True):
    """A second of a command went by. Shown, not recorded.

    ``cpu_s`` and ``memory_bytes`` are what it has used so far and uses now, None where
    that is not known.
    """

    index: int
    elapsed_s: float
    cpu_s: float | None = None
    memory_bytes: int | None = None


class CommandFinished(RunEvent, frozen=True):
    """A command ended.

    ``exit_code`` is 128 + n after signal n. ``reason`` is the limit that ended the
    command, or cancelled; None for an ordinary end, whatever its exit code. ``cpu_s``
    is user + system time of the command and its children, None if unknown.
    """

    index: int
    exit_code: int
    wall_s: float
    cpu_s: float | None = None
    reason: Reason | None = None
    oom_killed: bool = False


class RoundEnded(RunEvent, frozen=True):
    """A round of the commands ended, and another may follow. Not recorded.

    Nothing runs until the next event is asked for. ``round`` is 0 after the first.
    """

    round: int


class Found(RunEvent, frozen=True):
    """The figures and faults in a command's output."""

    index: int
    findings: Findings


class Checked(RunEvent, frozen=True):
    """What a command printed was compared with what the build file expects."""

    index: int
    checks: tuple[Check, ...]


class Profiled(RunEvent, frozen=True):
    """A command wrote profiles to the build folder; sent after Collected."""

    index: int
    files: tuple[ProfileFile, ...]


class Usage(RunEvent, frozen=True):
    """The resources that the whole run used."""

    peak_memory_bytes: int | None


class BuildFolder(RunEvent, frozen=True):
    """A piece of the build folder as an uncompressed tar stream, root ``build/``.

    Not recorded: the job writes it to the run's archive.
    """

    data: bytes


class Collected(RunEvent, frozen=True):
    """The build folder is in an archive at ``path``."""

    path: str
    size_bytes: int
    members: int


class Finished(RunEvent, frozen=True):
    """The run is over: the last event of every run."""

    verdict: Verdict


Event = RunEvent

TRANSIENT = (Progress, BuildOutput, Tick, BuildFolder, RoundEnded)
"""Events without a line in events.jsonl."""


class _Stamp(Struct):
    at: Moment


def to_line(event: Event, at: float) -> bytes:
    """Return the event as one JSON line, newline included."""
    body = {"at": at, "event": type(event).__name__, **asdict(event)}
    body.pop("data", None)
    return screen.json_bytes(body) + b"\n"


def from_line(line: bytes) -> tuple[float, Event]:
    """Parse one line; raise ValueError if it is not an event."""
    return json.decode(line, type=_Stamp).at, _decoder().decode(line)


@cache
def _decoder() -> json.Decoder[Event]:
    return json.Decoder(reduce(or_, RunEvent.__subclasses__()))


SMALL_BYTES = 1 << 15
"""A piece of at least this many bytes is an event at once."""

GATHER_S, LONG_GATHER_S = 0.002, 0.05
"""How long small pieces are gathered: at first, and after MANY events."""

MANY = 20_000
MOST_PIECES = 32

Piece = tuple[Stream, bytes]


class OutputPace:
    """The pace of a command's events.

    A line of events.jsonl takes more space than a small piece of output. So after many
    events fewer come, and a run of hours makes no more than megabytes of them.
    """

    def __init__(self) -> None:
        self._events = 0

    @property
    def gather_s(self) -> float:
        """How long to wait for more after a small piece."""
        return GATHER_S if self._events < MANY else LONG_GATHER_S

    def gathered(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Join pieces that came together; count what becomes events.

        Which stream a piece is of keeps its order, unless there are too many pieces.
        """
        most = MOST_PIECES if self._events < MANY else 2
        found = _joined(pieces)
        if len(found) > most:
            size = -(-2 * len(found) // most)
            parts = [found[at : at + size] for at in range(0, len(found), size)]
            # By their names stdout's come after stderr's.
            sorts = (sorted(part, key=itemgetter(0), reverse=True) for part in parts)
            found = [piece for part in sorts for piece in _joined(part)]
        self.count(len(found))
        return found

    def count(self, events: int) -> None:
        """Count events that were made."""
        self._events += events


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Join neighbours of one stream."""
    runs = groupby(pieces, itemgetter(0))
    return [(stream, b"".join(data for _, data in run)) for stream, run in runs]
