"""Locks of open files and folders; folders that the next process removes after a crash.

The kernel frees a lock when its process ends, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from runner.system import trees


def lock(handle: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file or folder; return whether no other process has it locked.

    None means that the file system has no locks.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, how if wait else how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def scratch(parent: Path, prefix: str = "") -> Iterator[Path]:
    """Make a folder that begins with a prefix, and remove it at the end.

    What killed processes of this user left with the same prefix is removed first.

    Raises:
        OSError: it cannot be made.
    """
    for name in os.listdir(parent):  # noqa: PTH208 - a name may hold wildcards
        if name.startswith(prefix):
            with suppress(OSError):
                _remove_abandoned(parent / name)
    while True:
        made = parent / f"{prefix}{secrets.token_hex(4)}"
        try:
            made.mkdir(mode=0o700)
        except FileExistsError:
            continue
        with suppress(FileNotFoundError):
            handle = os.open(made, trees.FOLDER)
            lock(handle, wait=True)
            # Another process may have taken it for one that was left, and removed it.
            if made.exists():
                break
            os.close(handle)
    try:
        yield made
    finally:
        with suppress(OSError):
            trees.remove(made)
        os.close(handle)


def _remove_abandoned(left: Path) -> None:
    found = left.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    handle = os.open(left, trees.FOLDER)
    try:
        if lock(handle):
            trees.remove(left)
    finally:
        os.close(handle)
