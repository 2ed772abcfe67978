"""Hold the folder of a downloaded file while a run uses it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRIES = 100
WAIT_S = 0.01
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def using(folder: Path, *, make: bool = False) -> Iterator[None]:
    """Keep others from removing a folder; raise OSError if it is absent.

    With ``make`` it is made.
    """
    handle = _locked(folder, make)
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def removing(folder: Path) -> Iterator[bool]:
    """Yield whether a folder may be removed: no run uses it, nor begins to."""
    try:
        handle = os.open(folder, _FOLDER | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        yield _lock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def _locked(folder: Path, make: bool) -> int:
    for _ in range(TRIES):
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, _FOLDER)
        try:
            # Another process may have removed it before it was locked.
            if _lock(handle, fcntl.LOCK_SH) and _is(folder, handle):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        time.sleep(WAIT_S)
    raise OSError(errno.EBUSY, "another process removes it", str(folder))


def _is(folder: Path, handle: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _lock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
