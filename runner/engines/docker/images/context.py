"""The files that an image build sees, and their checksum."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from runner import files
from runner.archive import Project
from runner.core import Problem
from runner.core.errors import ImageError
from runner.engines.docker.images.dockerignore import IGNORE_FILE, DockerIgnore

MOST_BYTES = 1 << 20


def names(project: Project, dockerfile: str) -> list[str]:
    """List what is sent and .dockerignore leaves, sorted, the Dockerfile first."""
    folder, sent = project.folder, project.names()
    ignore = DockerIgnore(read_text(folder, IGNORE_FILE) or "", dockerfile)
    first = posixpath.normpath(dockerfile)
    there = [first] if os.path.lexists(folder / first) else []
    return [*there, *sorted(ignore.left(sent) - {first})]


def checksum(project: Path, names: list[str]) -> str:
    """Return a checksum of names, kinds, execute bits and contents, not of times."""
    total = hashlib.sha256()
    for name in names:
        try:
            kind = _kind(project, name).encode(errors="surrogateescape")
        except OSError as error:
            raise _changed(name, error) from error
        total.update(name.encode(errors="surrogateescape") + b"\0" + kind + b"\n")
    return total.hexdigest()


def archive(project: Path, names: list[str]) -> IO[bytes]:
    """Pack the files of a build into a file that has no name.

    buildx looks at the first 1,024 bytes to tell an archive from a Dockerfile, which is
    why no extended header may come first: GNU's format, and whole seconds.
    """
    with ExitStack() as stack:
        packed = stack.enter_context(tempfile.TemporaryFile())
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name in names:
                try:
                    _add(tar, project, name)
                except OSError as error:
                    raise _changed(name, error) from error
        packed.seek(0)
        stack.pop_all()  # the caller closes it
        return packed


def read_text(project: Path, name: str) -> str | None:
    """Read a file that says how to build; None where there is none, else ImageError."""
    try:
        return files.read_below(project, name, MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        text = f"`{name}` cannot be read: {error.strerror}"
        raise ImageError(text) from error


def _changed(name: str, error: OSError) -> ImageError:
    text = f"{name!r} cannot be packed for the build: {error.strerror or error}"
    return ImageError(Problem(text, hint="try again, if it changed meanwhile"))


def _kind(project: Path, name: str) -> str:
    path = project / name
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return f"link {path.readlink()}"
    if not stat.S_ISREG(mode):
        return "folder" if stat.S_ISDIR(mode) else "other"
    with files.open_below(project, name) as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{'program' if mode & stat.S_IXUSR else 'file'} {content}"


def _add(tar: tarfile.TarFile, project: Path, name: str) -> None:
    member: tarfile.TarInfo | None = tar.gettarinfo(project / name, name)
    if member is None:  # a socket
        return
    # Forget who owns a file here: the builder's cache would count it.
    member.uid = member.gid = 0
    member.mtime = int(member.mtime)
    member.uname = member.gname = ""
    if member.isreg():
        with files.open_below(project, name) as file:
            tar.addfile(member, file)
    elif member.isdir() or member.issym() or member.islnk():
        tar.addfile(member)
