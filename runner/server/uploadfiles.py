"""The files of uploads: one for each packed project that a team sent."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from runner import files
from runner.server.base import Site

SHA256 = re.compile("[0-9a-f]{64}")


def upload_path(uploads: Path, team: str, sha256: str) -> Path:
    """Return where an upload is kept; no name that a client chose is part of it."""
    folder = hashlib.sha256(team.encode()).hexdigest()[:16]
    return uploads / folder / f"{sha256}.tar.zst"


def size_there(site: Site, team: str, sha256: str) -> int | None:
    """Return the size of a team's upload; to ask keeps it from being removed soon."""
    size = site.store.upload(team, sha256, site.now())
    try:
        facts = upload_path(site.uploads, team, sha256).lstat()
    except FileNotFoundError:
        return None
    whole = stat.S_ISREG(facts.st_mode) and facts.st_size == size
    return size if whole else None


def opened(path: Path) -> BinaryIO | None:
    """Open an upload for reading; None if there is none."""
    try:
        return files.open_regular(path)
    except OSError:
        return None


def free_bytes(uploads: Path) -> int:
    """Return what is free on the disk of the uploads."""
    uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    return shutil.disk_usage(uploads).free


def forget_arriving(uploads: Path) -> None:
    """Remove what a server that was killed had received of files, in part."""
    shutil.rmtree(_aside(uploads), ignore_errors=True)


class Arriving:
    """A file that is being received: aside, until all of it is there."""

    def __init__(self, uploads: Path) -> None:
        folder = _aside(uploads)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        self._file, self._path = os.fdopen(handle, "wb"), Path(name)
        self._digest = hashlib.sha256()
        self.size = 0

    @property
    def sha256(self) -> str:
        """The SHA-256 of what came so far, in hexadecimal digits."""
        return self._digest.hexdigest()

    def append(self, data: bytes) -> None:
        """Write data at the end."""
        self._file.write(data)
        self._digest.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Have all of it on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def name_it(self, path: Path) -> None:
        """Rename it to its path, durably.

        Another file there has the same bytes, or is damaged.
        """
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._path.rename(path)
        for folder in (path.parent, path.parent.parent):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def drop(self) -> None:
        """Close it; without a name it is gone."""
        with suppress(OSError):  # of a full disk, which was told before
            self._file.close()
        self._path.unlink(missing_ok=True)


def _aside(uploads: Path) -> Path:
    return uploads / "arriving"
