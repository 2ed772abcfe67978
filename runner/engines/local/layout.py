"""The file system of a sandbox, for bubblewrap and unshare alike."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from runner.core import DataMount, Limits, Profile
from runner.engines.folders import Folders
from runner.engines.local.host import Host

EMPTY = ("/data", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/var")
TOOLS = "/run/rai"
FIRST = f"{TOOLS}/sh"
NVIDIA = "/run/nvidia"
HOSTNAME = "rai"

Owner = tuple[int, int]

NOTHING = "/dev/null"
"""What is shown in place of a file: it cannot even be opened, as no device there."""


class Gpus(Struct, frozen=True):
    """The files of the run's GPUs.

    ``files`` are pairs of a host's file and its path in the sandbox: the driver's
    libraries and programs, in a folder of the search paths. ``groups`` are the groups
    that may open the device files, where others may not.
    """

    nodes: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    groups: tuple[int, ...] = ()


NO_GPUS = Gpus()


class Bind(Struct, frozen=True):
    """A file or folder of the host, and its path in the sandbox."""

    source: str
    target: str
    writable: bool = False


class Layout(Struct, frozen=True):
    """A whole sandbox: folders, then binds, then links, on an empty root.

    ``links`` are pairs of path and target. ``owner`` is the user that root changes to;
    None for an ordinary user, who stays the same. ``overlay`` is a folder to mount over
    /usr/bin. ``devices`` are the host's device files to show beside the usual ones;
    ``groups`` are the owner's, to open them. ``filter`` is a file with the filter of
    system calls.
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
    filter: str | None = None


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
    filter: Path | None = None,
    resolver: Bind | None = None,
    hidden: Sequence[Bind] = (),
) -> Layout:
    """Return the sandbox of a run: the host's files, the run's, data and GPUs.

    ``resolver`` is what names the run's name server, in place of the host's; ``hidden``
    is what takes the place of files that are not for the run.
    """
    own = (
        Bind(str(folders.scratch), "/tmp", writable=True),
        Bind(str(folders.source), "/src", writable=profile is Profile.COMPATIBLE),
        Bind(str(folders.build), "/build", writable=True),
        Bind(str(folders.tools), TOOLS),
    )
    seen = [*host.folders, *([host.resolver] if host.resolver and not resolver else [])]
    return Layout(
        folders=EMPTY,
        binds=(
            *own,
            *(Bind(str(path), str(path)) for path in seen),
            *(Bind(str(real), str(path)) for path, real in host.aliases),
            *hidden,
            *([resolver] if resolver else []),
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
        filter=str(filter) if filter else None,
    )


def hidden(folders: Folders) -> tuple[Bind, ...]:
    """Return what hides the settings that this user may use, and others may not.

    An ordinary user's groups stay with the commands: the kernel lets nobody else drop
    them. What these groups may read is hidden instead.
    """
    own = _own(Path("/etc"))
    empty = str(folders.empty)
    return tuple(Bind(empty if p.is_dir() else NOTHING, str(p)) for p in own)


def _own(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                mode = entry.stat(follow_symlinks=False).st_mode
                if _is_own(entry.path, mode):
                    yield Path(entry.path)
                elif stat.S_ISDIR(mode):
                    yield from _own(Path(entry.path))


def _is_own(path: str, mode: int) -> bool:
    """Whether this user may use a file, folder or socket, and others may not."""
    needed = os.R_OK
    if stat.S_ISDIR(mode):
        needed = os.X_OK
    elif stat.S_ISSOCK(mode):
        needed = os.W_OK
    elif not stat.S_ISREG(mode):
        return False
    return not mode & needed and os.access(path, needed)
