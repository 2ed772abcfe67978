"""What a run says while it happens, and each event's one JSON line.

A line is ``{"at": seconds, "event": name, ...fields}``. Bytes never enter a line:
output is kept in the log files, and the event says where (stream, offset, length).
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import msgspec

from runner.core import (
    EngineFacts,
    Findings,
    GitState,
    GpuUse,
    ImageUsed,
    Limits,
    Machine,
    Profile,
    ProfileFile,
    Reason,
    State,
    Stream,
    Verdict,
)
from runner.core.noun import noun


@noun
class Created:
    """A run begins: the first event of every run."""

    run_id: str
    project: str
    spec_file: str
    git: GitState | None
    machine: Machine


@noun
class StateChanged:
    """The run took a step."""

    state: State


@noun
class EngineChosen:
    """Which engine serves, how it confines, and what it cannot enforce."""

    engine: EngineFacts
    profile: Profile
    limits: Limits
    why: str = ""


@noun
class Packing:
    """The project is being looked through and packed."""


@noun
class Packed:
    """The project is in an archive."""

    sha256: str
    size_bytes: int
    members: int


@noun
class Warned:
    """Something the user should know; the run goes on."""

    text: str


@noun
class Progress:
    """How far a step has come; ``total`` None where it is unknown.

    ``task`` is "pack", "upload", "download NAME" or "pull"; both are in bytes. Shown,
    not recorded.
    """

    task: str
    done: float
    total: float | None


@noun
class DataReady:
    """A data file was found or downloaded, and its checksum is right."""

    name: str
    directory: str
    origin: str


@noun
class DataMissing:
    """A data file cannot be had; the commands decide what they can do without."""

    name: str
    directory: str
    why: str


@noun
class BuildStarted:
    """An image build begins."""

    reference: str
    why: str
    builder: str


@noun
class BuildOutput:
    """A piece of an image build's own output. Shown, not recorded."""

    text: str


@noun
class PullStarted:
    """An image is fetched from its registry."""

    reference: str


@noun
class ImageReady:
    """The image that the run starts from is there."""

    image: ImageUsed


@noun
class Starting:
    """What confines the commands is about to start: "container" or "sandbox"."""

    what: str = "container"


@noun
class GpuBusy:
    """The GPUs that the run needs are held by others; it waits, ``wait_s`` at most."""

    why: str
    wait_s: float


@noun
class GpuGiven:
    """The GPUs are in the container or sandbox; told again when commands are ``over``.

    By then ``use`` says how they are, if they answer.
    """

    use: GpuUse
    over: bool = False


@noun
class CommandStarted:
    """A command begins."""

    index: int
    text: str
    name: str | None = None


@noun
class CommandSkipped:
    """A command is not run."""

    index: int
    text: str
    why: str
    name: str | None = None


@noun
class Output:
    """Bytes that a command wrote, exactly as it wrote them.

    An engine fills ``data``; whoever keeps the log fills ``offset`` and ``length``.
    """

    index: int
    stream: Stream
    data: bytes = b""
    offset: int = 0
    length: int = 0


@noun
class Tick:
    """A second went by without output. Shown, not recorded."""

    index: int
    elapsed_s: float


@noun
class CommandFinished:
    """A command ended.

    ``exit_code`` is 128 + n after signal n. ``reason`` is None for an ordinary end,
    whatever its exit code; else the limit that ended it, or cancelled. ``cpu_s`` is
    user + system time of the command and its children, None where it is not known.
    """

    index: int
    exit_code: int
    wall_s: float
    cpu_s: float | None = None
    reason: Reason | None = None
    oom_killed: bool = False


@noun
class Found:
    """What was read in a command's output."""

    index: int
    findings: Findings


@noun
class Profiled:
    """A command wrote profiles to the build folder; told when that is kept."""

    index: int
    files: tuple[ProfileFile, ...]


@noun
class Usage:
    """What the whole run used."""

    peak_memory_bytes: int | None


@noun
class BuildFolder:
    """A piece of the build folder as an uncompressed tar stream, root ``build/``.

    Not recorded: whoever keeps the run writes it to its file.
    """

    data: bytes


@noun
class Collected:
    """The build folder is kept."""

    path: str
    size_bytes: int
    members: int


@noun
class Finished:
    """The run is over: the last event of every run."""

    verdict: Verdict


Event = (
    Created
    | StateChanged
    | EngineChosen
    | Packing
    | Packed
    | Warned
    | Progress
    | DataReady
    | DataMissing
    | BuildStarted
    | BuildOutput
    | PullStarted
    | ImageReady
    | Starting
    | GpuBusy
    | GpuGiven
    | CommandStarted
    | CommandSkipped
    | Output
    | Tick
    | CommandFinished
    | Found
    | Profiled
    | Usage
    | BuildFolder
    | Collected
    | Finished
)

TRANSIENT = (Progress, BuildOutput, Tick, BuildFolder)
"""Events that are shown or carried, and have no line in events.jsonl."""

_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def to_line(event: Event, at: float) -> bytes:
    """Give the event as one JSON line, newline included."""
    body: dict[str, object] = {"at": at, "event": type(event).__name__}
    for item in fields(event):
        if item.name != "data":
            body[item.name] = getattr(event, item.name)
    return msgspec.json.encode(body) + b"\n"


def from_line(line: bytes) -> tuple[float, Event]:
    """Read one line back; ValueError where it is not an event of ours."""
    body = msgspec.json.decode(line)
    try:
        at, kind = float(body.pop("at")), _TYPES[body.pop("event")]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"not an event: {line[:80]!r}") from error
    return at, msgspec.convert(body, kind)
