"""What is asked of a run, in one shape wherever it is written, and a worker's answer.

A RunRequest is `parcel.json` beside the packed project, the body by which a client asks
a server for a run, and what a worker gets: as a line on its stdin, or as `order.json`
in the run's folder.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runner.core import screen
from runner.core.build_spec import BuildSpec, Profile, Substitute
from runner.core.errors import Problem, Reason
from runner.core.policy import NO_POLICY, Policy, RolePolicy
from runner.core.run import GitState, ImageUsed
from runner.core.work import NO_SECRETS, Secrets

MOST_PARCEL_BYTES = 4 << 20
MOST_BYTES = 16 << 20
"""Of a whole request as a worker gets it, and of its answer."""

FOR_SERVER = "--for-server"
"""The option of a worker that a server asks, by one line: a run's id, or FACTS."""

FACTS = "facts"
LONGEST_ASKED = 64
MOST_PROBLEMS = 1000
"""How many problems an answer has; a build file can be made to have any number."""


class Terms(Struct, frozen=True, omit_defaults=True):
    """What the sender of a request to a worker adds to it; never a server's client."""

    settings: dict[str, str] = {}
    """The sender's settings, as variables."""

    engines: tuple[str, ...] = ()
    """The engines that the sender chose, the first one first; else the worker does."""

    why: str = ""
    """The reason for that choice."""

    allowed: RolePolicy | None = None
    """What a server allows whose client sent the project; None for this user's own."""

    gpus_out: dict[str, str] = {}
    """The GPUs that no run gets, by their UUIDs, and why."""

    slurm: dict[str, str] = {}
    """What else a server asks Slurm for, by the names of sbatch's options."""


NO_TERMS = Terms()


class RunRequest(Struct, frozen=True, omit_defaults=True, tag_field="version", tag=1):
    """What to run and how: all that a worker needs besides the packed project.

    In JSON the member `version` says which shape this is. ``kept`` is what may be
    written into a file that stays.
    """

    project: str
    """The client's folder, as shown."""

    spec_file: str
    """The client's build file, as shown."""

    spec_text: str
    """The build file, with masks in place of secret values."""

    sha256: str = ""
    """Of the project's uncompressed tar stream; "" until it is packed."""

    user: str = ""
    git: GitState | None = None
    profile: str | None = None
    """The profile, None for the build file's."""

    gpus: str | None = None
    """The option `--gpus`, None for what the build file says."""

    keep_going: bool = False
    gpu_wait_s: float = 600.0
    """How long it waits for a GPU that others use."""

    after: tuple[str, ...] = ()
    """The ids of the runs that end before this one begins."""

    warnings: tuple[str, ...] = ()
    """What was noticed while packing."""

    env_given: tuple[str, ...] = ()
    """The names of the variables given by `-e`."""

    only: tuple[str, ...] = ()
    """The words of `--only`."""

    substitute: Substitute | None = None
    """The image that was decided in place of the build file's."""

    title: str = ""
    """What the run is of a submission or a bench, such as "final: measure"."""

    inner: bool = False
    """Whether a later run of the same submission needs it."""

    repeat: int = 1
    """How many rounds the measured commands have, the first one included."""

    measured: tuple[str, ...] = ()
    """The words of `--command`."""

    budget: str | None = None
    """The option `--budget`."""

    engine: str = ""
    """The engine that a server's client wants, "" for the server's choice."""

    upload: str = ""
    """The SHA-256 of the file with the packed project that a client sent before."""

    secret: Secrets = NO_SECRETS
    terms: Terms = NO_TERMS

    @property
    def kept(self) -> RunRequest:
        """The request without what is forgotten when the run starts."""
        return replace(self, secret=NO_SECRETS, terms=NO_TERMS)

    @property
    def sent(self) -> bool:
        """Whether a server's client sent it, whose folders are not this machine's."""
        return self.terms.allowed is not None


class JobRequest(Struct, frozen=True):
    """A request that was checked here, with what that decided."""

    asked: RunRequest
    project: Path
    spec: BuildSpec
    """The build file, with the options and this site's ceilings applied."""

    profile: Profile
    why: str = ""
    """Why this engine was chosen."""

    replays: str = ""
    """The id of the earlier run that this one repeats."""

    image: ImageUsed | None = None
    """The image that the earlier run used."""

    left_out: frozenset[int] = frozenset()
    """The commands that `--only` leaves out."""

    policy: Policy = NO_POLICY
    """The site's as it is now, however old the request is."""

    strict_limits: str = ""
    """What refuses a run with a limit that cannot be enforced, "" if nothing does."""

    repeated: frozenset[int] = frozenset()
    """The commands that `--command` names."""

    budget_s: float = 3600.0
    """How long all rounds after the first may take together."""

    beside: str = ""
    """The id of the run that is measured beside this one."""

    idle_s: float = 0.0
    """How long it may wait for that one in all."""


class Answer(Struct, frozen=True):
    """Whether a worker took the run.

    With a ``reason`` it refused, and there is no run. ``ended`` says that the run ended
    before it began, with a record that tells why.
    """

    problems: tuple[Problem, ...] = ()
    reason: Reason | None = None
    ended: bool = False


def to_json(message: RunRequest | Answer) -> bytes:
    """Return a request or an answer as JSON, in one line without its end."""
    return screen.json_bytes(message)


def from_json(data: bytes) -> RunRequest:
    """Parse a request; raise ValueError if it is damaged or of an unknown version."""
    return msgspec.json.decode(data, type=RunRequest)


def answer_from(line: bytes) -> Answer:
    """Parse an answer; raise ValueError if it is none."""
    return msgspec.json.decode(line, type=Answer)
