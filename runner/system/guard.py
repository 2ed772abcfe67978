"""Kill process groups when this process dies, however it dies.

A shell in a session of its own waits for the end of a pipe that only this process holds
open. It is started with the first group, and serves all later ones.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

SCRIPT = """\
cd /
while read -r line; do groups=$line; done
for group in $groups; do kill -KILL "-$group"; done
"""
"""Each line is the list of all groups; the last one counts."""

_lock = threading.Lock()
_groups: set[int] = set()
_pipe = -1
_owner = 0


def start() -> None:
    """Start the shell, unless this process has one."""
    global _pipe, _owner
    with _lock:
        if _owner == os.getpid():  # else this is a fork of the one that has it
            return
        _groups.clear()
        _pipe, _owner = _started(), os.getpid()


def add(group: int) -> None:
    """Kill this process group when this process dies."""
    with _lock:
        _groups.add(group)
        _tell()


def discard(group: int) -> None:
    """Leave this group alone; call it before another one can get its id."""
    with _lock:
        _groups.discard(group)
        _tell()


def _tell() -> None:
    with suppress(OSError):  # somebody killed or stopped the shell
        os.write(_pipe, (" ".join(map(str, _groups)) + "\n").encode())


def _started() -> int:
    """Start the shell; return the end of its pipe to write to."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", SCRIPT],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(read)
    return write
