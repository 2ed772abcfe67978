"""The files of uploads: one for each packed project that a team sent, or sends."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from runner import files
from runner.jobhost.base import OpenedFile
from runner.server.bounds import PIECE_BYTES

SHA256 = re.compile("[0-9a-f]{64}")
_OPENED = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def upload_id(team: str, sha256: str) -> str:
    """Return the id of a team's upload of a file: the same whenever it is asked for."""
    return hashlib.sha256(f"{team}\0{sha256}".encode()).hexdigest()[:24]


def upload_path(uploads: Path, team: str, sha256: str) -> Path:
    """Return where an upload is kept; no name that a client chose is part of it."""
    folder = hashlib.sha256(team.encode()).hexdigest()[:16]
    return uploads / folder / f"{sha256}.part"


def size_of(path: Path) -> int:
    """Return how many bytes there are of an upload."""
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return 0
    return facts.st_size if stat.S_ISREG(facts.st_mode) else 0


def opened(path: Path) -> OpenedFile | None:
    """Open an upload for reading; None if there is none."""
    try:
        file = files.open_regular(path)
    except OSError:
        return None
    return OpenedFile(file, os.fstat(file.fileno()).st_size)


def free_bytes(uploads: Path) -> int:
    """Return what is free on the disk of the uploads."""
    uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    return shutil.disk_usage(uploads).free


class UploadFile:
    """The file of an upload, open to be written on at its end."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it; raise OSError if something else is in its place."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = path.parent
        self._handle = os.open(path, _OPENED, 0o600)
        facts = os.fstat(self._handle)
        if not stat.S_ISREG(facts.st_mode):
            os.close(self._handle)
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        self.size = facts.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._handle)

    def append(self, data: bytes) -> None:
        """Write data at the end, all of it or nothing."""
        pending = memoryview(data)
        try:
            while pending:
                at = self.size + len(data) - len(pending)
                pending = pending[os.pwrite(self._handle, pending, at) :]
        except OSError:
            os.ftruncate(self._handle, self.size)
            raise
        self.size += len(data)

    def empty(self) -> None:
        """Forget what was received."""
        os.ftruncate(self._handle, 0)
        self.size = 0

    def has(self, sha256: str) -> bool:
        """Return whether the content has this SHA-256; it is on the disk then."""
        digest = hashlib.sha256()
        at = 0
        while piece := os.pread(self._handle, 4 * PIECE_BYTES, at):
            digest.update(piece)
            at += len(piece)
        if digest.hexdigest() != sha256:
            return False
        os.fsync(self._handle)
        for folder in (self._folder, self._folder.parent):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        return True
