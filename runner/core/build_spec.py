"""The typed contents of a rai_build.yml."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from runner.core.expectations import Expectation
from runner.core.limits import Limits
from runner.core.problem import Place


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
    what names ``used``: the option, or the line of a settings file.
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
