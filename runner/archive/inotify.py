"""Wait for changes in folders: Linux's inotify, where it serves, else only the time.

It only wakes its caller, who looks at what changed. So an event that is lost or of no
interest does no harm. A package would bring more than these calls: watchfiles an event
loop of its own and anyio, watchdog a thread for each folder tree.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Collection
from pathlib import Path

MODIFY, ATTRIB, CLOSE_WRITE, MOVED, CREATE, DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
MOVE_SELF, DELETE_SELF, ONLY_FOLDERS = 0x800, 0x400, 0x01000000
ALL = MODIFY | ATTRIB | CLOSE_WRITE | MOVED | CREATE | DELETE | MOVE_SELF | DELETE_SELF
READ_BYTES = 1 << 16


class Wakeup:
    """Wakes when something changes in the folders that it was given last."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None
        self._events = -1
        self._watched: dict[str, int] = {}
        self._told, self._tell = os.pipe()
        if self._libc is not None:
            self._events = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)

    def watch(self, folders: Collection[Path]) -> bool:
        """Watch these folders alone; return False if it cannot watch all of them."""
        if self._libc is None or self._events < 0:
            return False
        wanted = {str(folder) for folder in folders}
        for gone in self._watched.keys() - wanted:
            self._libc.inotify_rm_watch(self._events, self._watched.pop(gone))
        for folder in wanted:
            # Again for one that is watched: another folder may have its name by now.
            name, mask = os.fsencode(folder), ALL | ONLY_FOLDERS
            number = self._libc.inotify_add_watch(self._events, name, mask)
            if number >= 0:
                self._watched[folder] = number
        return len(self._watched) == len(wanted)

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change, for a time at most; return whether there was one."""
        ready, _, _ = select.select(
            [fd for fd in (self._events, self._told) if fd >= 0], [], [], timeout_s
        )
        if self._events not in ready:
            return False
        while _read(self._events):
            pass
        return True

    def interrupt(self) -> None:
        """Let ``wait`` return, from another thread."""
        os.write(self._tell, b"x")

    def close(self) -> None:
        """Watch nothing any more."""
        for number in (self._events, self._told, self._tell):
            if number >= 0:
                os.close(number)


_LINUX = sys.platform == "linux"


def _read(events: int) -> bytes:
    try:
        return os.read(events, READ_BYTES)
    except BlockingIOError:
        return b""
