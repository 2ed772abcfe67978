"""Messages between a server and its job host, the process that carries runs out.

They meet at a Unix socket: one request line, one answer line, with open files passed
beside them (SCM_RIGHTS). So neither needs a right to the other's folders, and the host
chooses what the server may read.
"""

from __future__ import annotations

from msgspec import Struct, json

from runner.core.ending import Reason, State
from runner.core.policy import RolePolicy
from runner.core.problem import Problem

MOST_LINE_BYTES = 16 << 20
READABLE = (
    "events.jsonl",
    "stdout.log",
    "stderr.log",
    "latest.json",
    "record.json",
    "spec.yml",
    "parcel.json",
    "source.tar.zst",
    "build.tar.zst",
)
"""The files of a run's folder that a host opens for its server."""


class HostGpu(Struct, frozen=True):
    """A GPU of the host; ``out`` says why no run gets it, "" if runs do."""

    uuid: str
    name: str
    out: str = ""


class HostFacts(Struct, frozen=True):
    """What a host can do now; ``problems`` say why it takes no run at all.

    ``engines`` are the names of those that can serve, ``memory_bytes`` and
    ``disk_free`` the machine's. Where Slurm carries runs out ``home`` is their folder,
    which its nodes have to see, and ``node_gpus`` the most GPUs that one node has, None
    until Slurm has answered; a single machine has neither. ``unenforced`` has a line
    for each engine with limits that it does not enforce.
    """

    version: str
    engines: tuple[str, ...]
    gpus: tuple[HostGpu, ...] = ()
    problems: tuple[Problem, ...] = ()
    disk_free: int = 0
    memory_bytes: int = 0
    cores: int = 1
    node_gpus: int | None = None
    home: str = ""
    unenforced: tuple[str, ...] = ()

    @property
    def in_slurm(self) -> bool:
        """Whether Slurm carries the runs out."""
        return bool(self.home)


class HostRun(Struct, frozen=True):
    """What a host knows of one run.

    ``claimed`` is False where no worker took it, and then nothing of it has run.
    ``ended`` is True once its record is written. ``gpus`` are the UUIDs that it holds
    or held. ``bytes`` is what its folder takes, once it has ended. ``waits`` says why a
    run has not begun that a cluster has in its queue, or has given its ``node``.
    """

    id: str
    claimed: bool
    ended: bool
    state: State | None = None
    reason: Reason | None = None
    exit_code: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    gpus: tuple[str, ...] = ()
    bytes: int = 0
    waits: str = ""
    node: str = ""


class AskFacts(Struct, frozen=True, tag="facts"):
    """Ask for HostFacts."""


class StartRun(Struct, frozen=True, tag="start"):
    """Start a run; two files come with it: parcel.json and source.tar.zst.

    ``settings`` are variables such as RAI_ENGINE. A run that was started before is not
    started again; the answer then has ``already``. ``slurm`` is what else Slurm is
    asked for, by the names of sbatch's options; it is for a cluster alone.
    """

    id: str
    settings: dict[str, str] = {}
    spec_text: str = ""
    secrets: dict[str, str] = {}
    allowed: RolePolicy | None = None
    slurm: dict[str, str] = {}


class LookAt(Struct, frozen=True, tag="look"):
    """Ask for the HostRun of each run; one that is not known is left out."""

    ids: tuple[str, ...]


class CancelRun(Struct, frozen=True, tag="cancel"):
    """Ask a run to end."""

    id: str


class OpenFile(Struct, frozen=True, tag="open"):
    """Ask for an open file of a run's folder, one of READABLE; it comes beside."""

    id: str
    name: str


class RemoveRuns(Struct, frozen=True, tag="remove"):
    """Remove the folders of runs that have ended."""

    ids: tuple[str, ...]


class ClearGpu(Struct, frozen=True, tag="clear"):
    """Let runs have a GPU again that was out."""

    uuid: str


HostRequest = (
    AskFacts | StartRun | LookAt | CancelRun | OpenFile | RemoveRuns | ClearGpu
)


class HostAnswer(Struct, frozen=True, omit_defaults=True):
    """An answer; with a ``reason`` the request was refused, for the ``problems``.

    Which other member is set depends on the request. ``size`` is that of an opened
    file, None where there is no such file.
    """

    reason: Reason | None = None
    problems: tuple[Problem, ...] = ()
    facts: HostFacts | None = None
    runs: tuple[HostRun, ...] = ()
    already: bool = False
    size: int | None = None


def to_line(message: HostRequest | HostAnswer) -> bytes:
    """Return a message as one JSON line."""
    return json.encode(message) + b"\n"


def request_from(line: bytes) -> HostRequest:
    """Parse a request; raise ValueError if it is none."""
    request: HostRequest = json.decode(line, type=HostRequest)
    return request


def answer_from(line: bytes) -> HostAnswer:
    """Parse an answer; raise ValueError if it is none."""
    return json.decode(line, type=HostAnswer)
