"""What a command finds where in a sandbox, whoever sets it up. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from runner.core import DataMount, Limits, Profile
from runner.engines.folders import Folders
from runner.engines.local.host import Host

EMPTY = ("/data", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/var")
TOOLS = "/run/rai"
NVIDIA = "/run/nvidia"
HOSTNAME = "rai"

Owner = tuple[int, int]


class Gpus(Struct, frozen=True):
    """What a sandbox shows of the GPUs that its run was given.

    ``files`` are pairs of the host's file and its place: the driver's libraries and
    programs, wherever the host has them, at one place that the loader is told of.
    ``groups`` are those that may open the device files where not everybody may.
    """

    nodes: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    groups: tuple[int, ...] = ()


NO_GPUS = Gpus()


class Bind(Struct, frozen=True):
    """A file or folder of the host, and where it is seen."""

    source: str
    target: str
    writable: bool = False


class Layout(Struct, frozen=True):
    """A whole sandbox: folders, then binds, then links, on an empty root.

    ``links`` are pairs of path and target. ``owner`` is whom root becomes; None for an
    ordinary user, who stays who they are. ``overlay`` is mounted over /usr/bin.
    ``devices`` are device files of the host beside those that any program expects, and
    ``groups`` are the groups that the owner needs to open them.
    """

    folders: tuple[str, ...]
    binds: tuple[Bind, ...]
    links: tuple[tuple[str, str], ...]
    owner: Owner | None
    shm_bytes: int
    network: bool
    mount: str
    overlay: str | None = None
    devices: tuple[str, ...] = ()
    groups: tuple[int, ...] = ()


def layout(
    folders: Folders,
    host: Host,
    *,
    limits: Limits,
    profile: Profile,
    data: Sequence[DataMount] = (),
    owner: Owner | None = None,
    overlay: bool = False,
    gpus: Gpus = NO_GPUS,
) -> Layout:
    """Arrange the host's programs, its Python, the data, GPUs and the run's folders."""
    own = (
        Bind(str(folders.scratch), "/tmp", writable=True),
        Bind(str(folders.source), "/src", writable=profile is Profile.COMPATIBLE),
        Bind(str(folders.build), "/build", writable=True),
        Bind(str(folders.tools), TOOLS),
    )
    seen = [*host.folders, *([host.resolver] if host.resolver else [])]
    return Layout(
        folders=EMPTY,
        binds=(
            *own,
            *(Bind(str(path), str(path)) for path in seen),
            *(
                Bind(str(file.path), f"{mount.directory}/{file.name}")
                for mount in data
                for file in mount.files
            ),
            *(Bind(source, target) for source, target in gpus.files),
        ),
        links=(
            *((str(path), target) for path, target in host.links),
            ("/var/tmp", "/tmp"),
            ("/var/run", "/run"),
        ),
        owner=owner,
        shm_bytes=limits.shm_bytes,
        network=limits.network,
        mount=str(folders.mount),
        overlay=str(folders.overlay) if overlay else None,
        devices=gpus.nodes,
        groups=gpus.groups,
    )
