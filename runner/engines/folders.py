"""The temporary folders of a run without a container."""

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
    """The folders of one run; the name of ``root`` is unique on this machine."""

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
        """The commands' /tmp."""
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        """The commands' home folder, in ``scratch``."""
        return self.scratch / "home"

    @property
    def tools(self) -> Path:
        """Replacements for programs that the host lacks."""
        return self.root / "tools"

    @property
    def overlay(self) -> Path:
        """Programs to be shown in /usr/bin."""
        return self.root / "overlay"

    @property
    def data(self) -> Path:
        """Copies of data files that cannot be mounted where they are."""
        return self.root / "data"

    @property
    def mount(self) -> Path:
        """Where the sandbox's root is mounted."""
        return self.root / "root"

    @property
    def lock(self) -> Path:
        """The lock file that the process holds which made the folders."""
        return self.root / "lock"


@contextmanager
def temporary(name: str) -> Iterator[Folders]:
    """Make a run's folders, for this user alone; remove them on exit."""
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
    """Make the lock file, and lock it before it gets its name."""
    new = folders.lock.with_suffix(".new")
    handle = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    new.rename(folders.lock)
    return handle


def reap() -> list[str]:
    """Remove the folders of processes that were killed; return their names."""
    reaped = []
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError):  # another user's, or removed meanwhile
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
