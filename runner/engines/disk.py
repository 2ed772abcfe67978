"""Measure the size of a job's folders now and then."""

from __future__ import annotations

import time
from pathlib import Path

from runner.archive import source
from runner.core import Reason

EVERY_S = 2.0
SHARE = 20
"""Measuring takes at most 1/SHARE of the time."""


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
        total = source.size(*self._folders)
        now = time.monotonic()
        self._next = now + max(EVERY_S, SHARE * (now - began))
        return Reason.DISK_LIMIT if total > self._limit else None
