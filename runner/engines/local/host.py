"""The files of this machine that a sandbox shows: programs and rai's Python."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec import Struct

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
