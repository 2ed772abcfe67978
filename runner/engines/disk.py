"""Measure the size of a job's folders now and then."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

from runner import trees
from runner.core import Reason

EVERY_S = 2.0
BLOCK_BYTES = 512
SHARE = 20
"""Measuring takes at most 1/SHARE of the time."""


ENTRY_BYTES = 4096
"""What a file, folder or link costs at least, however small it is."""


def used(folders: Iterable[Path], most_bytes: int) -> int:
    """Return the bytes that some folders take together, each file once.

    Counting ends above ``most_bytes``.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        most_names = (most_bytes - total) // ENTRY_BYTES + 1
        try:
            for entry in trees.entries(folder, most=most_names):
                total += cost(entry.info, seen)
                if total > most_bytes:
                    return total
        except trees.TooManyError:
            return most_bytes + 1
    return total


def cost(info: os.stat_result, seen: set[tuple[int, int]]) -> int:
    """Return the bytes that a file takes, unless it is one of ``seen``."""
    if info.st_nlink != 1:
        identity = (info.st_dev, info.st_ino)
        if identity in seen and not stat.S_ISDIR(info.st_mode):
            return 0
        seen.add(identity)
    return max(info.st_size, info.st_blocks * BLOCK_BYTES, ENTRY_BYTES)


class FolderDiskWatch:
    """A check that the files below some folders stay within a limit together.

    A run may exceed the limit until the next measurement.
    """

    def __init__(self, *folders: Path, limit_bytes: int) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._next = time.monotonic() + EVERY_S

    def __call__(self) -> Reason | None:
        """Measure, unless the last measurement is recent; return DISK_LIMIT or None."""
        return self.look() if time.monotonic() >= self._next else None

    def look(self) -> Reason | None:
        """Measure now; return DISK_LIMIT or None."""
        began = time.monotonic()
        total = used(self._folders, self._limit)
        now = time.monotonic()
        self._next = now + max(EVERY_S, SHARE * (now - began))
        return Reason.DISK_LIMIT if total > self._limit else None
