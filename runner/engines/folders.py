"""The folders that a run has for itself on the host, where there is no container."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from runner.archive import source

PREFIX = "rai-"


class Folders(Struct, frozen=True):
    """Where what lies; the root's name is the run's own on this machine."""

    root: Path

    @property
    def source(self) -> Path:
        """The unpacked project: /src."""
        return self.root / "src"

    @property
    def build(self) -> Path:
        """The commands' working folder: /build."""
        return self.root / "build"

    @property
    def scratch(self) -> Path:
        """What is /tmp to all commands of the run."""
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        """The commands' home, a folder of ``scratch``."""
        return self.scratch / "home"

    @property
    def tools(self) -> Path:
        """Stand-ins for programs that the host does not have."""
        return self.root / "tools"

    @property
    def over(self) -> Path:
        """Programs that must appear in /usr/bin itself."""
        return self.root / "over"

    @property
    def data(self) -> Path:
        """Data files that cannot be shown where they are."""
        return self.root / "data"

    @property
    def mount(self) -> Path:
        """Where a new root is put together."""
        return self.root / "root"

    @property
    def lock(self) -> Path:
        """Locked for as long as the process lives that made the folders."""
        return self.root / "lock"


@contextmanager
def made(name: str) -> Iterator[Folders]:
    """Make the empty folders of a run, for this user alone; remove them in the end."""
    folders = Folders(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-")))
    lock = _locked(folders)
    try:
        for folder in (folders.source, folders.build, folders.home, folders.mount):
            folder.mkdir(parents=True)
        folders.scratch.chmod(0o1777)
        yield folders
    finally:
        source.remove(folders.root)
        os.close(lock)


def _locked(folders: Folders) -> int:
    """Make the lock; it is held before anyone can see it under its name."""
    new = folders.lock.with_suffix(".new")
    handle = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    new.rename(folders.lock)
    return handle


def reap() -> list[str]:
    """Remove the folders that a process left which was killed; give their names."""
    reaped = []
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError):  # another user's, or gone meanwhile
            if _abandoned(Folders(root)):
                source.remove(root)
                reaped.append(root.name)
    return reaped


def _abandoned(folders: Folders) -> bool:
    handle = os.open(folders.lock, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return folders.root.stat().st_uid == os.getuid()
