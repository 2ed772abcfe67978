"""Remove folders so that a crash leaves none half removed; private folders."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runner.core import Problem
from runner.core.errors import ConfigError
from runner.store.paths import WRITABLE
from runner.system import locks, trees

TRASH = ".trash"


def discard(folder: Path, *names: str) -> None:
    """Move entries of a folder to its trash; one that is gone already is no error.

    Raise OSError if that fails.
    """
    if not names:
        return
    with suppress(FileExistsError):
        (folder / TRASH).mkdir(mode=0o770 if is_shared(folder) else 0o700)
    # Opened without following links: a link there could lead anywhere.
    trash = os.open(folder / TRASH, trees.FOLDER)
    try:
        for name in names:
            aside = f"{name}.{secrets.token_hex(4)}"
            with suppress(FileNotFoundError):
                os.rename(folder / name, aside, dst_dir_fd=trash)
    finally:
        os.close(trash)


def is_shared(folder: Path) -> bool:
    """Whether a folder is for the users of a group: what is made there has the group.

    A server and its workers, as users of their own, have such a folder for the runs.
    """
    return bool(folder.stat().st_mode & stat.S_ISGID)


def empty(folder: Path, *, wait: bool = False) -> None:
    """Delete what is in a folder's trash.

    If another process is doing so, leave it to that one, or ``wait`` for it. What
    cannot be deleted stays for the next call.
    """
    with _held(folder / TRASH, wait) as trash:
        if trash is not None:
            with os.scandir(trash) as entries:
                names = [entry.name for entry in entries]
            for name in names:
                with suppress(OSError):
                    trees.remove(name, trash)


def size_bytes(path: Path) -> int:
    """Return the space that a file or folder takes on disk; 0 if it is gone."""
    total, pending = 0, [str(path)]
    while pending:
        with suppress(OSError):
            here = pending.pop()
            total += _taken(os.lstat(here))
            with os.scandir(here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += _taken(entry.stat(follow_symlinks=False))
    return total


def _taken(found: os.stat_result) -> int:
    # Some file systems count the blocks of a new file only after a while.
    return max(found.st_blocks * 512, found.st_size)


@contextmanager
def _held(trash: Path, wait: bool) -> Iterator[int | None]:
    """Open and lock the trash; yield None if there is none or others hold it."""
    try:
        opened = os.open(trash, trees.FOLDER)
    except OSError:
        yield None
        return
    try:
        # On a file system without locks two at once do no harm.
        yield None if locks.lock(opened, wait=wait) is False else opened
    finally:
        os.close(opened)


@contextmanager
def folder(root: Path) -> Iterator[Path]:
    """Make a folder in ``root``, and remove it afterwards.

    What killed processes left there is removed too.

    Raises:
        ConfigError: it cannot be made.
    """
    with ExitStack() as stack:
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            made = stack.enter_context(locks.scratch(root))
        except OSError as error:
            text = f"{root} cannot be written: {error.strerror}"
            raise ConfigError(Problem(text, hint=WRITABLE)) from error
        yield made


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which one process or thread has at a time.

    Raises:
        OSError: its file system has no locks.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not locks.lock(handle, wait=True):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), str(folder))
        yield
    finally:
        os.close(handle)


@contextmanager
def alone(lock: Path) -> Iterator[bool]:
    """Hold the lock of a file, which is made; yield False where another process does.

    On a file system without locks everybody holds it.
    """
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield locks.lock(handle) is not False
    finally:
        os.close(handle)
