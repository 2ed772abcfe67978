"""The file system of a sandbox, and the files of this machine that it shows."""

from __future__ import annotations

import os
import site
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct

from runner.core import DataMount, Limits, Profile
from runner.engines.folders import Folders
from runner.engines.imageless import Owner

SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "sys", "usr")
"""The folders of the host's root that a sandbox shows: programs and their settings.

Everything else stays hidden, above all home folders and mounted disks.
"""

TIME = Path("/usr/bin/time")
RESOLVER = Path("/etc/resolv.conf")

Link = tuple[Path, str]


class Host(Struct, frozen=True):
    """Folders and links that a sandbox shows at their own paths, read-only.

    ``aliases`` are pairs of a path and the folder to show there: links in /tmp, which
    all commands of a run share. The first command's sandbox would leave a link there,
    and the next one's could not make it.
    ``bin`` is the folder of the Python that runs rai, ``python`` the program itself.
    ``wrap`` says that the folder lacks the name ``python`` or ``python3`` for it.
    ``user_base`` is where pip installs this user's packages; None without any.
    """

    folders: tuple[Path, ...]
    links: tuple[Link, ...]
    aliases: tuple[tuple[Path, Path], ...]
    python: Path
    bin: Path
    wrap: bool
    user_base: Path | None
    resolver: Path | None


@cache
def host() -> Host:
    """Return the files of this machine to show."""
    python = Path(sys.executable)
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    packages = _user_packages()
    seen, links = _system()
    wanted = [python, *prefixes, *packages]
    links += [link for path in wanted for link in _links(path)]
    apart = _outermost([*seen, *(path.resolve() for path in prefixes + packages)])
    outside = dict.fromkeys(link for link in links if not _below(link[0], apart))
    shared = [path for path, _ in outside if path.is_relative_to("/tmp")]
    bin = Path(sys.prefix, "bin")
    venv = sys.prefix != sys.base_prefix
    return Host(
        folders=tuple(apart),
        links=tuple(link for link in outside if link[0] not in shared),
        aliases=tuple((path, path.resolve()) for path in shared),
        python=python,
        bin=bin,
        wrap=not (venv and (bin / "python").exists() and (bin / "python3").exists()),
        user_base=Path(site.getuserbase()) if packages else None,
        resolver=_resolver(apart),
    )


def _system() -> tuple[list[Path], list[Link]]:
    there = [path for name in SYSTEM if (path := Path("/", name)).exists()]
    links = [(path, str(path.readlink())) for path in there if path.is_symlink()]
    return [path for path in there if not path.is_symlink()], links


def _user_packages() -> list[Path]:
    folder = Path(site.getusersitepackages())
    return [folder] if site.ENABLE_USER_SITE and folder.is_dir() else []


def _resolver(seen: list[Path]) -> Path | None:
    """Return the real path of resolv.conf, unless ``seen`` contains it."""
    real = RESOLVER.resolve()
    return real if real.is_file() and not _below(real, seen) else None


def _below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _outermost(folders: list[Path]) -> list[Path]:
    """Drop duplicates and folders that lie in others."""
    once = list(dict.fromkeys(folders))
    return [path for path in once if not _below(path, [f for f in once if f != path])]


def _links(path: Path) -> list[Link]:
    """Return the symbolic links between a path and its real path."""
    found: list[Link] = []
    here = Path("/")
    rest = list(path.parts[1:])
    while rest and len(found) < 40:  # the kernel's limit
        here /= rest.pop(0)
        # Path.is_symlink raises where this user has no permission.
        if os.path.islink(here):  # noqa: PTH114 - see above
            target = here.readlink()
            found.append((here, str(target)))
            rest = [*target.parts, *rest]
            here = here.parent
            if target.is_absolute():
                rest, here = rest[1:], Path("/")
        elif here.name == "..":
            here = here.parent.parent
    return found


EMPTY = ("/data", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/var")
TOOLS = "/run/rai"
FIRST = f"{TOOLS}/sh"
NVIDIA = "/run/nvidia"
HOSTNAME = "rai"

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


def lay_out(
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
