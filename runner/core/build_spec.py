"""The typed contents of a rai_build.yml: commands, limits, what output is expected."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from runner.core.errors import Place, Reason
from runner.core.quantities import COUNT, GIB, MIB, SIZE, SWITCH, TIME, Kind


class Limits(Struct, frozen=True):
    """The most that a run may use. A build file can set what has a row in LIMITS."""

    time_s: float = 3600.0
    memory_bytes: int = 8 * GIB
    pids: int = 512
    output_bytes: int = 256 * MIB
    disk_bytes: int = 2 * GIB
    shm_bytes: int = 64 * MIB
    network: bool = False
    stop_grace_s: float = 10.0
    build_time_s: float = 1200.0
    build_pids: int = 4096
    build_disk_bytes: int = 32 * GIB
    open_files: int = 4096
    file_bytes: int = 2 * GIB
    data_bytes: int = 10 * GIB


class Limit(Struct, frozen=True):
    """A limit that a build file can set and a site's policy can cap, by its key.

    ``help`` is for the documents. A run whose command meets the limit ends with
    ``reason``.
    """

    key: str
    kind: Kind[Any]
    help: str
    reason: Reason | None = None

    @property
    def field(self) -> str:
        """Its name in Limits."""
        return self.key + self.kind.unit

    @property
    def of_build(self) -> bool:
        """Whether it is for the build of an image alone."""
        return self.key.startswith("build_")

    def of(self, limits: Limits) -> Any:  # noqa: ANN401 - of its field's type
        """Return its value among others."""
        return getattr(limits, self.field)

    def written(self, limits: Limits = Limits()) -> str:
        """Write its value as a build file would; the default one for an example."""
        return self.kind.write(self.of(limits))


_MEMORY = SIZE.at_least(6 * MIB)
"""What a container needs to start at all."""

_PIDS = COUNT.at_least(8)
"""What an engine itself may need beside a command."""

LIMITS = (
    Limit(
        "time",
        TIME,
        "of the whole run; with `--repeat` of each round",
        Reason.TIME_LIMIT,
    ),
    Limit(
        "memory",
        _MEMORY,
        "without swap; of an image build, too",
        Reason.MEMORY_LIMIT,
    ),
    Limit("pids", _PIDS, "processes and threads", Reason.PIDS_LIMIT),
    Limit(
        "output",
        SIZE,
        "of the run's stdout and stderr, each; of an image build, too",
        Reason.OUTPUT_LIMIT,
    ),
    Limit("disk", SIZE, "of `/build`", Reason.DISK_LIMIT),
    Limit("shm", SIZE, "of `/dev/shm`"),
    Limit("data", SIZE, "of all `dataresources`"),
    Limit("network", SWITCH, "overrides `resources.network`"),
    Limit("build_time", TIME, "of building, pulling or pushing the image"),
    Limit("build_pids", _PIDS, "processes and threads of an image build"),
    Limit("build_disk", SIZE, "of what an image build adds to its base image"),
)


FIGURES = ("correctness", "agreement", "accuracy")
"""The printed figures that a build file may expect, each a share from 0 to 1."""


class Expected(Struct, frozen=True):
    """One expected thing.

    ``what`` is a figure, and ``how`` its comparison: ``=``, ``>=``, ``<=``, ``>`` or
    ``<``. Otherwise ``what`` is "output", and ``how`` is "text" or "regex".
    """

    what: str
    how: str
    value: str

    @property
    def words(self) -> str:
        """Describe it: ``correctness 0.8898``, ``output "PASS"``."""
        if self.how == "text":
            return f'{self.what} "{self.value}"'
        if self.how == "regex":
            return f"{self.what} /{self.value}/"
        how = () if self.how == "=" else (self.how,)
        return " ".join((self.what, *how, self.value))


class Expectation(Struct, frozen=True):
    """What a command is expected to print: one of the alternatives, if several."""

    alternatives: tuple[Expected, ...]
    place: Place | None = None

    @property
    def words(self) -> str:
        """Describe it, with all alternatives."""
        return " or ".join(one.words for one in self.alternatives)


class Check(Struct, frozen=True):
    """An expectation, and what the command printed.

    ``found`` is "" if it printed nothing of the kind.
    """

    expected: str
    found: str
    holds: bool
    place: Place | None = None


class Command(Struct, frozen=True):
    """One entry of ``commands.build``; ``text`` is the line as it is written.

    ``env`` are the variables that the file gives to this command alone.
    """

    text: str
    name: str | None = None
    needs_gpu: bool = False
    continue_on_error: bool = False
    timeout_s: float | None = None
    place: Place | None = None
    expect: tuple[Expectation, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


class GpuRequest(Struct, frozen=True):
    """The request of ``resources.gpu``; architecture and memory have no effect.

    ``uuids`` are UUIDs of GPUs, or prefixes of them, from the command line.
    """

    count: int = 1
    optional: bool = False
    architecture: str = ""
    memory: str = ""
    uuids: tuple[str, ...] = ()


class DataResource(Struct, frozen=True):
    """A data file of a spec: its address, its checksum and its place in the run.

    ``directory`` is the folder of the file inside the run, ``file_name`` its name.
    """

    directory: str
    file_name: str
    url: str
    md5: str | None = None
    place: Place | None = None


class Push(Struct, frozen=True):
    """Where a built image is pushed to."""

    image_name: str


class BuildImage(Struct, frozen=True):
    """``commands.build_image``: which Dockerfile, which target, which tag.

    ``gpu_target`` is built instead of ``target`` for a run with a GPU.
    """

    image_name: str | None = None
    dockerfile: str = "Dockerfile"
    target: str | None = None
    gpu_target: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    no_cache: bool = False
    push: Push | None = None
    place: Place | None = None


class Substitute(Struct, frozen=True):
    """The image that a run uses in place of the one that its build file names.

    ``asked`` is the name in the build file, "" where it would build one; ``by`` says
    what names ``used``: the option, the line of a settings file, or rai itself.
    """

    asked: str
    used: str
    by: str


class Profile(StrEnum):
    """How tightly a run is confined."""

    STRICT = "strict"
    COMPATIBLE = "compatible"


class BuildSpec(Struct, frozen=True):
    """A whole rai_build.yml; with a ``substitute`` in place of its own image.

    ``image_place`` is where the file names the image. ``env`` are the variables of
    every command, ``cpu_cores`` is how many cores a cluster is asked for.
    """

    file: str
    version: str = ""
    image: str | None = None
    image_place: Place | None = None
    cpu_architecture: str = ""
    cpu_cores: int | None = None
    gpu: GpuRequest | None = None
    limits: Limits = Limits()
    data: tuple[DataResource, ...] = ()
    build_image: BuildImage | None = None
    commands: tuple[Command, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    substitute: Substitute | None = None

    @property
    def profile(self) -> Profile:
        """Compatible for a named image that is not built here, otherwise strict."""
        return Profile.COMPATIBLE if self.names_image else Profile.STRICT

    @property
    def names_image(self) -> bool:
        """Whether the run uses a named image and builds none."""
        return self.image is not None and self.build_image is None

    def built_for(self, gpu: bool) -> BuildSpec:
        """Return the spec with the target for a run with, or without, a GPU."""
        build = self.build_image
        if build is None or build.gpu_target is None:
            return self
        target = build.gpu_target if gpu else build.target
        build = replace(build, target=target, gpu_target=None)
        return replace(self, build_image=build)
