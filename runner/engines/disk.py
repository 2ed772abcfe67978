"""Measure what a job's folders take of a disk, now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from runner.core import Reason
from runner.engines import openfiles
from runner.engines.openfiles import used

EVERY_S = 2.0
SHARE = 20
"""Measuring takes at most 1/SHARE of the time,"""

SOON_S = 0.1
SOON_SHARE = 3
"""or 1/SOON_SHARE while the free space shrinks so fast that a limit may be met."""


class FreeSpace:
    """The free space of some folders' file systems, which costs little to look at."""

    def __init__(self, folders: Collection[Path], limit_bytes: int) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._at_first = self._free()
        self._then, self._room = self._at_first, limit_bytes

    def lost(self) -> int:
        """Return by how much it has shrunk since this was made."""
        return self._at_first - self._free()

    def measured(self, total_bytes: int) -> None:
        """Note that so much of the limit is taken now."""
        self._then, self._room = self._free(), self._limit - total_bytes

    def may_be_over(self) -> bool:
        """Whether it has shrunk by what the last measurement left of the limit."""
        return self._then - self._free() > self._room

    def _free(self) -> int:
        infos = {(i := os.statvfs(f)).f_fsid: i for f in self._folders}.values()
        return sum(info.f_bavail * info.f_frsize for info in infos)


class DiskMeter:
    """A meter of what some folders take together, and of removed files in use.

    Files that were removed count while one of the ``processes`` uses them. If they may
    be hidden from it (``openfiles``), all space that the file system has lost since the
    meter was made counts.
    """

    def __init__(
        self,
        folders: Collection[Path],
        limit_bytes: int,
        processes: Callable[[], Iterable[int]],
        devices: Collection[int] = (),
    ) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._processes = processes
        self._devices = devices or {folder.stat().st_dev for folder in folders}
        self.space = FreeSpace(folders, limit_bytes)

    def taken(self) -> int:
        """Measure and return the bytes taken; counting may end above the limit."""
        total = used(self._folders, self._limit)
        if total <= self._limit:
            removed = openfiles.removed(self._processes(), self._devices)
            total += removed.bytes
            if removed.hidden:
                total = max(total, self.space.lost())
        self.space.measured(total)
        return total


def pause_s(every_s: float, took_s: float) -> float:
    """Return how long to wait after a measurement that took so long."""
    return max(every_s, SHARE * took_s)


class Pace:
    """When to measure next: not too often, as it takes time."""

    def __init__(self, first_s: float, every_s: float) -> None:
        self._every_s = every_s
        self._took_s = 0.0
        self._last = time.monotonic()
        self._next = self._last + first_s

    def due(self, space: FreeSpace | None) -> bool:
        """Whether it is time to measure, or ``space`` says that it should be sooner."""
        now = time.monotonic()
        if now >= self._next:
            return True
        soon = self._last + max(SOON_S, SOON_SHARE * self._took_s)
        return space is not None and now >= soon and space.may_be_over()

    def measured(self, began: float) -> None:
        """Note that a measurement began at a time of the monotonic clock and ended."""
        self._last = time.monotonic()
        self._took_s = self._last - began
        self._next = self._last + pause_s(self._every_s, self._took_s)


class FolderDiskWatch:
    """A check that the files of some folders stay within a limit together.

    A run may exceed the limit until the next measurement.
    """

    def __init__(
        self,
        *folders: Path,
        limit_bytes: int,
        processes: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._limit = limit_bytes
        self._meter = DiskMeter(folders, limit_bytes, processes)
        self._pace = Pace(EVERY_S, EVERY_S)

    def __call__(self) -> Reason | None:
        """Measure, unless the last measurement is recent; return DISK_LIMIT or None."""
        return self.look() if self._pace.due(self._meter.space) else None

    def look(self) -> Reason | None:
        """Measure now; return DISK_LIMIT or None."""
        began = time.monotonic()
        taken = self._meter.taken()
        self._pace.measured(began)
        return Reason.DISK_LIMIT if taken > self._limit else None
