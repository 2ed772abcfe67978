"""A rai_build.yml in types."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from runner.core.problem import Place
from runner.core.units import GIB, MIB


class Command(Struct, frozen=True):
    """One entry of ``commands.build``; ``text`` is the line as written."""

    text: str
    name: str | None = None
    needs_gpu: bool = False
    continue_on_error: bool = False
    timeout_s: float | None = None
    place: Place | None = None


class GpuRequest(Struct, frozen=True):
    """What ``resources.gpu`` asks for; architecture and memory have no effect.

    ``uuids`` are the GPUs that the command line names, or prefixes of them.
    """

    count: int = 1
    optional: bool = False
    architecture: str = ""
    memory: str = ""
    uuids: tuple[str, ...] = ()


class Limits(Struct, frozen=True):
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


class DataResource(Struct, frozen=True):
    """A file that a spec asks for: its address, checksum and where it appears.

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

    ``gpu_target`` is built in place of ``target`` for a run that is given a GPU.
    """

    image_name: str | None = None
    dockerfile: str = "Dockerfile"
    target: str | None = None
    gpu_target: str | None = None
    args: tuple[tuple[str, str], ...] = ()
    no_cache: bool = False
    push: Push | None = None
    place: Place | None = None


class Profile(StrEnum):
    """How tightly a run is confined."""

    STRICT = "strict"
    COMPATIBLE = "compatible"


class BuildSpec(Struct, frozen=True):
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
        return Profile.COMPATIBLE if self.names_image else Profile.STRICT

    @property
    def names_image(self) -> bool:
        """Whether the run uses a named image, and builds none."""
        return self.image is not None and self.build_image is None

    def built_for(self, gpu: bool) -> BuildSpec:
        """Return the spec with the target for a run with, or without, a GPU."""
        build = self.build_image
        if build is None or build.gpu_target is None:
            return self
        target = build.gpu_target if gpu else build.target
        build = replace(build, target=target, gpu_target=None)
        return replace(self, build_image=build)
