"""The temporary folders of a run without a container."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from runner import files, machine, process, trees

PREFIX = "rai-"
MOST_GROUPS_BYTES = 1 << 16
MARK = "RAI_MARK"
"""The variable that names a process' folder, where no sandbox holds the process."""


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
    def empty(self) -> Path:
        """A folder without files, shown in place of what is hidden."""
        return self.root / "empty"

    @property
    def filter(self) -> Path:
        """The filter of system calls."""
        return self.root / "filter"

    @property
    def resolver(self) -> Path:
        """The file that names the run's name server."""
        return self.root / "resolv.conf"

    @property
    def groups(self) -> Path:
        """Names the run's control groups, which may be made in any session."""
        return self.root / "groups"

    @property
    def lock(self) -> Path:
        """The lock file that the process holds which made the folders."""
        return self.root / "lock"


@contextmanager
def temporary(name: str) -> Iterator[Folders]:
    """Make a run's folders, for this user alone; remove them on exit.

    Their name tells the process too, as it may be killed before it has the lock.
    """
    prefix = f"{PREFIX}{name}-{machine.this_process().tag}-"
    folders = Folders(Path(tempfile.mkdtemp(prefix=prefix)))
    lock = -1
    try:
        lock = _locked(folders)
        own = (folders.source, folders.build, folders.home)
        for folder in (*own, folders.mount, folders.empty):
            folder.mkdir(parents=True)
        folders.scratch.chmod(0o1777)
        yield folders
    finally:
        trees.remove(folders.root)
        if lock >= 0:
            os.close(lock)


def _locked(folders: Folders) -> int:
    """Make the lock file, and lock it before it gets its name."""
    new = folders.lock.with_suffix(".new")
    handle = os.open(new, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    new.rename(folders.lock)
    return handle


def reap() -> list[str]:
    """Remove the folders of processes that were killed; return their names.

    First kill the processes that are still marked with a folder's name. Others' folders
    may have such a name too, and a file ``lock`` in them; but none names a process.
    """
    reaped = []
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            if machine.tagged(root.name) and _abandoned(root):
                process.kill_marked(MARK, root.name)
                _remove_groups(Folders(root))
                trees.remove(root)
                reaped.append(root.name)
    return reaped


def _remove_groups(left: Folders) -> None:
    from runner.engines.local import cgroup

    with suppress(OSError, ValueError):
        listed = files.read_below(left.root, left.groups.name, MOST_GROUPS_BYTES)
        for line in listed.decode().splitlines():
            cgroup.remove_left(Path(line))


def _abandoned(root: Path) -> bool:
    if root.lstat().st_uid != os.getuid():
        return False
    try:
        handle = os.open(Folders(root).lock, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:  # killed before it had the lock, or while it removed all
        return machine.has_ended(root.name)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True
