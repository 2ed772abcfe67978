"""Private folders in the home folder that one command makes and removes, and locks.

A folder is locked by its process, so that a later command can tell what a killed
process left, and remove it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runner import trees
from runner.core import Problem
from runner.core.errors import ConfigError


@contextmanager
def folder(root: Path) -> Iterator[Path]:
    """Make a folder in ``root``, and remove it afterwards.

    What killed processes left there is removed too.

    Raises:
        ConfigError: it cannot be made.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(root):
            _sweep(root)
            made = root / secrets.token_hex(8)
            made.mkdir(mode=0o700)
            lock = _lock(made, fcntl.LOCK_EX)
    except OSError as error:
        text = f"{root} cannot be written: {error.strerror}"
        hint = "set RAI_HOME to a folder that you can write to"
        raise ConfigError(Problem(text, hint=hint)) from error
    try:
        yield made
    finally:
        with suppress(OSError):
            trees.remove(made)
        os.close(lock)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which one process or thread has at a time."""
    handle = _lock(folder, fcntl.LOCK_EX)
    try:
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
        free = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            free = not isinstance(error, BlockingIOError)
        yield free
    finally:
        os.close(handle)


def _lock(folder: Path, how: int) -> int:
    """Lock a folder until the descriptor that is returned is closed."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, how)
    except OSError:
        os.close(handle)
        raise
    return handle


def _sweep(root: Path) -> None:
    """Remove the folders that no process holds."""
    for left in root.iterdir():
        with suppress(OSError):
            lock = _lock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                trees.remove(left)
            finally:
                os.close(lock)
