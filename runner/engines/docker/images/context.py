"""The files that an image build sees, and their checksum."""

from __future__ import annotations

import hashlib
import stat
import tarfile
import tempfile
from pathlib import Path
from typing import IO

from docker.utils.build import exclude_paths

IGNORE_FILE = ".dockerignore"


def names(project: Path, dockerfile: str) -> list[str]:
    """List what .dockerignore leaves, sorted, and always the Dockerfile."""
    return sorted(exclude_paths(str(project), _patterns(project), dockerfile))


def checksum(project: Path, names: list[str]) -> str:
    """Return a checksum of names, kinds, execute bits and contents, not of times."""
    total = hashlib.sha256()
    for name in names:
        path = project / name
        kind = _kind(path, path.lstat().st_mode).encode(errors="surrogateescape")
        total.update(name.encode(errors="surrogateescape") + b"\0" + kind + b"\n")
    return total.hexdigest()


def archive(project: Path, names: list[str]) -> IO[bytes]:
    """Pack the files for the engine's own builder into a temporary file."""
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
    """Leave out who owns a file here: the builder's cache would count it."""
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
