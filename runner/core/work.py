"""What an engine gets: steps and their variables, image, data, archives, limits."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, field
from msgspec.structs import replace

from runner.core.build_spec import BuildImage, Command, Limits, Profile
from runner.core.errors import Place
from runner.core.gpu import GpuGrant
from runner.core.policy import PrivateTarget
from runner.core.quantities import GIB, MIB

MOST_BYTES = 64 << 10
"""Of one value. The kernel takes twice as much, a variable's name included."""

PASSED = frozenset(
    (
        *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TZ", "USER"),
        *("PYTHONPATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
        "COVERAGE_PROCESS_START",
        *("http_proxy", "https_proxy", "no_proxy"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    )
)
"""What a process of rai elsewhere has of this one's environment, but for settings."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RAIS = {"RAI", "SOURCE_DIR", "BUILD_DIR", "DATA_DIR", "IMAGE_NAME"}
_SHELLS = frozenset(
    {"BASHOPTS", "BASH_VERSINFO", "EUID", "OPTIND", "PPID", "SHELLOPTS", "UID"}
)


class Secrets(Struct, frozen=True, omit_defaults=True):
    """What no file of a run keeps; ``repr`` shows the names only.

    ``values`` are those that the user gave by ``-e``, by name. ``spec_text`` is the
    whole build file, where records have masks in it, else "".
    """

    values: Mapping[str, str] = field(default_factory=dict)
    spec_text: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted; these may be recorded."""
        return tuple(sorted(self.values))

    def __repr__(self) -> str:
        """Return the names."""
        return f"Secrets({', '.join(self.names)})"


NO_SECRETS = Secrets()


def wrong_name(name: str) -> str | None:
    """Return why users cannot set a variable of this name; None if they can."""
    if not _NAME.fullmatch(name):
        return "a name has letters, digits and `_`, and begins with no digit"
    if name in _SHELLS:
        return "a shell sets it, and lets nobody change it"
    if name.startswith("RAI_"):
        return "names with `RAI_` are rai's own"
    if name == "CUDA_VISIBLE_DEVICES":
        return "rai sets it; --gpus chooses the GPUs"
    return "rai sets it" if name in _RAIS else None


def wrong_value(value: str) -> str | None:
    """Return why a variable cannot have this value; None if it can."""
    if "\0" in value:
        return "it has a NUL character"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "it is not UTF-8 text"
    return f"it is longer than {MOST_BYTES // 1024} KiB" if size > MOST_BYTES else None


class Stream(StrEnum):
    """The stream that a program wrote to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class Invocation(Struct, frozen=True):
    """How one command line is started, and why.

    Without a shell ``argv`` is the program and its arguments. With one, ``script`` is
    the line for ``bash -o pipefail -c``, or ``sh -c`` if there is no bash.
    """

    argv: tuple[str, ...]
    why: str
    script: str | None = None

    @property
    def shell(self) -> bool:
        """Whether a shell runs the line."""
        return self.script is not None


NO_GPU_HERE = "needs a GPU, and this run has none"
"""Why a command is skipped in a run without a GPU."""

LEFT_OUT = "left out by --only"
"""Why a command is skipped that was not asked for."""


class Step(Struct, frozen=True):
    """A command for an engine; ``skip`` says why it is not run.

    ``repeats`` is the index of the step that it repeats; ``round`` is 0 for the first
    time, then 1, 2, ...
    """

    index: int
    command: Command
    invocation: Invocation
    skip: str | None = None
    repeats: int | None = None
    round: int = 0


class Archive(Struct, frozen=True):
    """A packed project; ``sha256`` is that of the uncompressed tar stream."""

    path: Path
    sha256: str
    size_bytes: int
    raw_bytes: int
    members: int


class DataFile(Struct, frozen=True):
    """One verified data file on this machine.

    ``within`` is the folder that links must not leave when the file is opened; None for
    a file in the user's own folders, whose links are followed.
    """

    name: str
    path: Path
    md5: str
    size_bytes: int
    within: Path | None = None


class DataMount(Struct, frozen=True):
    """Data files that the run sees, read-only, in one folder."""

    directory: str
    files: tuple[DataFile, ...]

    @property
    def key(self) -> str:
        """A name that identifies this content."""
        text = "\n".join(f"{f.md5} {f.name}" for f in self.files)
        return digest_of(text.encode())[:16]


class ImageAction(StrEnum):
    """How an engine gets an image."""

    PULL = "pull"
    BUILD = "build"
    REUSE = "reuse"


class ImageFacts(Struct, frozen=True):
    """The facts from an engine and a project that decide how to get an image.

    ``present`` maps every tag, rai's own included, to an image id. ``context_sha256``
    covers every file that an image build sees; ``dockerfile`` is None if the
    file does not exist. ``built`` are the images that rai built, of any project;
    ``origin`` identifies this project.
    """

    present: Mapping[str, str]
    platform: str
    dockerfile: str | None = None
    context_sha256: str = ""
    origin: Origin | None = None
    built: tuple[BuiltImage, ...] = ()


class ImagePlan(Struct, frozen=True):
    """Pull, build or reuse, and why; ``reference`` names the image of the run.

    ``parts``, ``bases`` (their names) and ``origin`` describe the build; they are
    absent if the engine was not asked. ``asked`` is the image that the build file names
    at ``place``; ``named_by`` says what names another, "" if nothing does. ``limits``
    are those of the run.
    """

    action: ImageAction
    reference: str
    why: str
    build: BuildImage | None = None
    key: str = ""
    tags: tuple[str, ...] = ()
    parts: ImageParts | None = None
    bases: tuple[str, ...] = ()
    origin: Origin | None = None
    asked: str = ""
    named_by: str = ""
    place: Place | None = None
    limits: Limits = Limits()


class EngineFacts(Struct, frozen=True):
    """The name of an engine, and the limits that it cannot enforce for this user.

    ``architecture`` is its machine's, "" for this one. ``unenforced_with_network`` are
    those of runs with a network alone, ``unenforced_in_builds`` those of image builds.
    """

    name: str
    version: str = ""
    how: str = ""
    confines: bool = True
    unenforced: tuple[str, ...] = ()
    architecture: str = ""
    unenforced_in_builds: tuple[str, ...] = ()
    unenforced_with_network: tuple[str, ...] = ()

    def in_run(self, limits: Limits) -> EngineFacts:
        """Return the facts for a run with these limits."""
        more = self.unenforced_with_network if limits.network else ()
        return replace(
            self, unenforced=(*self.unenforced, *more), unenforced_with_network=()
        )


class Workspace(Struct, frozen=True):
    """All that an engine needs to run the steps of one job.

    ``open_source`` returns the project as an uncompressed tar stream, with names
    relative to the project's root. ``environment`` are the variables that the build
    file gives to every command, ``secrets`` those of the command line. ``is_wrong`` is
    whether a command, whose CommandFinished was yielded, printed something else than
    the build file expects. ``open_build`` returns what the build folder holds at the
    beginning, with names below ``build/``; None for an empty one. ``private`` are the
    addresses that the run may reach although they are not public. ``data_kept_bytes``
    is how much of data files an engine may keep for later runs, of all runs together.
    ``strict_limits`` says what ends the run if a limit is not enforced any more, "" if
    nothing does. ``more`` returns the steps of a further round each time that one ended
    well, none if the run is over; it is None for a run of one round. ``more_s`` is how
    long these rounds and the time between them may take, besides the run's time limit.
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
    gpu: GpuGrant | None = None
    is_wrong: Callable[[int], bool] = lambda _: False
    secrets: Secrets = Secrets()
    open_build: Callable[[], BinaryIO] | None = None
    private: tuple[PrivateTarget, ...] = ()
    data_kept_bytes: float = math.inf
    strict_limits: str = ""
    more: Callable[[], tuple[Step, ...]] | None = None
    more_s: float = 0.0

    def variables(self, step: Step) -> dict[str, str]:
        """Return what users add to the variables that an engine sets for a step.

        They may be secret: no command line, label or container may hold them.
        """
        own = dict(step.command.env)
        return {**self.environment, **own, **self.secrets.values}


class Origin(Struct, frozen=True):
    """The project folder that an image was built from, on any machine.

    ``name`` is the folder's; ``machine`` and ``folder`` are checksums of the machine
    and the path, which distinguish the projects of several people on one engine.
    """

    name: str
    machine: str
    folder: str


class ImageParts(Struct, frozen=True):
    """The inputs of a built image: its target, and a checksum of each other part.

    ``args`` includes the platform, ``files`` all files that the build sees, ``bases``
    the names and ids of the images that the Dockerfile starts from.
    """

    target: str
    dockerfile: str
    args: str
    files: str
    bases: str


class BuiltImage(Struct, frozen=True):
    """An image on the engine that rai built.

    ``tags`` are all its names now, ``names`` those that the build file asked for when
    it was built. ``versions`` are those that its Dockerfile states. ``containers`` is
    the number of containers that use it, running or not. What was not looked up is
    None.
    """

    id: str
    tags: tuple[str, ...]
    size_bytes: int
    created_at: float
    origin: Origin | None = None
    parts: ImageParts | None = None
    names: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    shared_bytes: int | None = None
    containers: int | None = None


class Caps(Struct, frozen=True):
    """Ceilings of one archive; all bytes are uncompressed."""

    total_bytes: int
    members: int
    file_bytes: int


UPLOAD = Caps(total_bytes=500 * MIB, members=20_000, file_bytes=100 * MIB)
"""What a project may send; settings change the bytes."""

BUILD_FILES = 100_000
"""How many files and folders a build folder may have."""

SPARE_BYTES = GIB
"""What data files leave free on a disk."""


def build_caps(limits: Limits) -> Caps:
    """Return the ceilings of a build folder.

    The disk limit is checked at intervals, so a small excess is accepted.
    """
    most = limits.disk_bytes + limits.disk_bytes // 4
    return Caps(total_bytes=most, members=BUILD_FILES, file_bytes=most)


BUILD = build_caps(Limits())
"""What a build folder may bring back, unless its run had other limits."""


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def digest_of_set(files: Mapping[str, str]) -> str:
    """Return the SHA-256 of the sorted lines `name NUL sha256 LF` of files.

    ``files`` are names with the SHA-256 of their content, in hexadecimal digits.
    """
    lines = (f"{name}\0{sha256}\n" for name, sha256 in sorted(files.items()))
    return digest_of("".join(lines).encode())
