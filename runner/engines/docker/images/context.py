"""The files that an image build gets to see, and their common checksum."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from docker.utils.build import exclude_paths

from runner.core.image import Entries

IGNORE_FILE = ".dockerignore"
MOST_LISTED = 200
"""Of so many files each is listed, so that a change can be told by its name."""

SHORT_DIGITS = 10
"""Enough to see a change; what counts is the checksum of all."""


def names(project: Path, dockerfile: str) -> list[str]:
    """List what .dockerignore leaves, sorted; the Dockerfile is always among it."""
    return sorted(exclude_paths(str(project), _patterns(project), dockerfile))


def checksums(project: Path, names: list[str]) -> tuple[str, Entries]:
    """Cover names, kinds, execute bits and contents; times and owners do not count.

    Give the checksum of all, and short ones of each where they are few.
    """
    total, each = hashlib.sha256(), []
    for name in names:
        path = project / name
        kind = _kind(path, path.lstat().st_mode).encode(errors="surrogateescape")
        total.update(name.encode(errors="surrogateescape") + b"\0" + kind + b"\n")
        each.append((name, hashlib.sha256(kind).hexdigest()[:SHORT_DIGITS]))
    return total.hexdigest(), tuple(each) if len(each) <= MOST_LISTED else ()


def archive(project: Path, names: list[str]) -> IO[bytes]:
    """Pack the files for the engine's own builder into a file that has no name."""
    packed = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in names:
            tar.add(project / name, name, recursive=False, filter=_plain)
    packed.seek(0)
    return packed


def _patterns(project: Path) -> list[str]:
    try:
        text = (project / IGNORE_FILE).read_text()
    except FileNotFoundError:
        return []
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _kind(path: Path, mode: int) -> str:
    if stat.S_ISLNK(mode):
        return f"link {path.readlink()}"
    if not stat.S_ISREG(mode):
        return "folder" if stat.S_ISDIR(mode) else "other"
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{'program' if mode & stat.S_IXUSR else 'file'} {content}"


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Forget who owns a file here: the builder's cache would count it."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
