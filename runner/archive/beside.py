"""Folders beside the one that they become or replace, on the same file system.

A temporary one is locked for as long as its process lives. What a killed process left
is removed by the next one that wants the same place.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runner import trees
from runner.core.errors import UsageError

MARK = ".rai-unpacking-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def folder_beside(into: Path) -> Path:
    """Make a folder beside ``into``, which stays; raise UsageError if that fails."""
    with _creating(into):
        return Path(tempfile.mkdtemp(prefix=f".{into.name}.", dir=into.parent))


@contextmanager
def temporary(into: Path) -> Iterator[Path]:
    """Make a folder beside ``into``, to be renamed to it; remove it otherwise.

    Raises:
        UsageError: it cannot be made.
    """
    with _creating(into):
        _remove_left(into)
        made, lock = _locked(into)
    try:
        yield made
    finally:
        with suppress(OSError):
            trees.remove(made)
        os.close(lock)


@contextmanager
def _creating(into: Path) -> Iterator[None]:
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise UsageError(f"{into} cannot be created: {error.strerror}") from error


def _locked(into: Path) -> tuple[Path, int]:
    """Make a folder and lock it; return it and its descriptor."""
    while True:
        name = f".{into.name}{MARK}"
        made = Path(tempfile.mkdtemp(prefix=name, dir=into.parent))
        with suppress(FileNotFoundError):
            lock = os.open(made, _FOLDER)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            # Another process may have taken it for one that was left, and removed it.
            if made.exists():
                return made, lock
            os.close(lock)


def _remove_left(into: Path) -> None:
    """Remove what killed processes of this user left for the same place."""
    prefix = f".{into.name}{MARK}"
    for name in os.listdir(into.parent):  # noqa: PTH208 - a name may hold wildcards
        if name.startswith(prefix):
            with suppress(OSError):
                _remove_abandoned(into.parent / name)


def _remove_abandoned(left: Path) -> None:
    found = left.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    lock = os.open(left, _FOLDER)
    try:
        # Raises an error where it is locked, and where nothing can be locked.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        trees.remove(left)
    finally:
        os.close(lock)
