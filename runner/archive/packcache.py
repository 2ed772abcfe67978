"""Files of a project as they were packed last, so that only what changed is read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import BinaryIO

from runner.archive.contents import Member

MOST_BYTES, LARGEST_BYTES = 64 << 20, 1 << 20
"""Of all files together, and of one: a larger one takes no time to open."""

SETTLED_NS, COARSE_NS = 10**8, 3 * 10**9
"""A file that changed later than this before it was read may change unseen.

That is seconds on file systems that keep no fractions of a second.
"""

Signature = tuple[int, ...]


class PackCache:
    """The members of small files, headers and padding included, in memory."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[Signature, bytes]] = {}
        self._bytes = 0

    def get(self, project: Path, member: Member) -> bytes | None:
        """Return a file's member if the file is as it was when it was kept."""
        if (found := self._members.get(member.name)) is None:
            return None
        try:
            status = (project / member.name).lstat()
        except OSError:
            return None
        return found[1] if found[0] == _signature(member, status) else None

    def keep(self, member: Member, status: os.stat_result, data: bytes) -> None:
        """Keep a file's member, read when it had this status, if there is room."""
        old = self._members.pop(member.name, None)
        self._bytes -= len(old[1]) if old else 0
        fits = len(data) <= LARGEST_BYTES and self._bytes + len(data) <= MOST_BYTES
        if fits and _settled(status):
            self._members[member.name] = _signature(member, status), data
            self._bytes += len(data)


class Copied:
    """Pass data on to another file, and keep it."""

    def __init__(self, out: BinaryIO) -> None:
        self._out, self._pieces = out, list[bytes]()

    def write(self, data: bytes) -> int:
        """Write the next piece."""
        self._pieces.append(data)
        return self._out.write(data)

    @property
    def data(self) -> bytes:
        """What was written."""
        return b"".join(self._pieces)


def _signature(member: Member, status: os.stat_result) -> Signature:
    times = status.st_mtime_ns, status.st_ctime_ns
    return (status.st_dev, status.st_ino, status.st_size, *times, member.executable)


def _settled(status: os.stat_result) -> bool:
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    least = SETTLED_NS if changed % 10**6 else COARSE_NS
    return time.time_ns() - changed > least
