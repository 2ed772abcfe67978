"""What of this machine a sandbox shows: its programs, and the Python that runs rai."""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from msgspec import Struct

SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "sys", "usr")
"""The folders of the host's root that are seen: programs and their settings, no one's
files. Whatever else lies there, homes and mounted disks above all, is not."""

TIME = Path("/usr/bin/time")
RESOLVER = Path("/etc/resolv.conf")

Link = tuple[Path, str]


class Host(Struct, frozen=True):
    """Folders and links that are seen at their own places, read-only.

    ``bin`` is the folder of the Python that runs rai, ``python`` the program itself,
    ``wrap`` whether that folder does not call it both ``python`` and ``python3``.
    ``user_base`` is where packages of this user alone lie, if there are any.
    """

    folders: tuple[Path, ...]
    links: tuple[Link, ...]
    python: Path
    bin: Path
    wrap: bool
    user_base: Path | None
    resolver: Path | None


@cache
def host() -> Host:
    """Look at this machine."""
    python = Path(sys.executable)
    prefixes = [Path(sys.prefix), Path(sys.base_prefix)]
    packages = _user_packages()
    seen, links = _system()
    wanted = [python, *prefixes, *packages]
    links += [link for path in wanted for link in _links(path)]
    apart = _outermost([*seen, *(path.resolve() for path in prefixes + packages)])
    bin = Path(sys.prefix, "bin")
    venv = sys.prefix != sys.base_prefix
    return Host(
        folders=tuple(apart),
        links=tuple(
            dict.fromkeys(link for link in links if not _below(link[0], apart))
        ),
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
    """Where the settings of name look-up really lie, if no sandbox shows them yet."""
    real = RESOLVER.resolve()
    return real if real.is_file() and not _below(real, seen) else None


def _below(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _outermost(folders: list[Path]) -> list[Path]:
    """Drop the folders that lie in others, and what is named twice."""
    once = list(dict.fromkeys(folders))
    return [path for path in once if not _below(path, [f for f in once if f != path])]


def _links(path: Path) -> list[Link]:
    """Give the symbolic links that lead from a path to what it really is."""
    found: list[Link] = []
    here = Path("/")
    rest = list(path.parts[1:])
    while rest and len(found) < 40:  # as many as the kernel follows
        here /= rest.pop(0)
        # Not Path.is_symlink, which raises where this user may not look.
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
