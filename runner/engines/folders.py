"""The temporary folders of a run without a container, and what killed ones left."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runner.engines import cgroup
from runner.system import files, machine, trees

PREFIX = "rai-"
MOST_GROUPS_BYTES = 1 << 16
MARK = "RAI_MARK"
"""The variable that names a process' folder, where no sandbox holds the process."""


class Folders:
    """The folders of one run; the name of ``root`` is unique on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = root / "src"  # the unpacked project: /src
        self.build = root / "build"  # the commands' working folder: /build
        self.scratch = root / "tmp"  # the commands' /tmp
        self.home = self.scratch / "home"
        self.tools = root / "tools"  # replacements for programs that the host lacks
        self.overlay = root / "overlay"  # programs to be shown in /usr/bin
        self.data = root / "data"  # copies of data files that cannot be mounted
        self.mount = root / "root"  # where the sandbox's root is mounted
        self.empty = root / "empty"  # no files; shown in place of what is hidden
        self.filter = root / "filter"  # of system calls
        self.resolver = root / "resolv.conf"  # names the run's name server
        self.groups = root / "groups"  # names the run's control groups, for any session
        self.lock = root / "lock"  # held by the process that made the folders


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
                machine.kill_marked(MARK, root.name)
                _remove_groups(Folders(root))
                trees.remove(root)
                reaped.append(root.name)
    return reaped


def _remove_groups(left: Folders) -> None:
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
