"""One process at a time has a server's folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from runner.core import Problem
from runner.core.errors import BusyError
from runner.server.paths import ServerFolder


@contextmanager
def locked(folder: ServerFolder) -> Iterator[None]:
    """Hold a server's folder, which the kernel frees when this process ends.

    Raises:
        BusyError: a server serves it.
    """
    with folder.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            text = f"a server serves {folder.root}"
            hint = "stop it first, or name another folder by --state"
            raise BusyError(Problem(text, hint=hint), advice="") from None
        yield
