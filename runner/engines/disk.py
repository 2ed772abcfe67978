"""Measure the size of a job's folders now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from runner.core import Reason
from runner.engines import openfiles
from runner.engines.usage import used

EVERY_S = 2.0
SHARE = 20
"""Measuring takes at most 1/SHARE of the time."""


class FolderDiskWatch:
    """A check that the files of some folders stay within a limit together.

    Files that were removed count while one of the ``processes`` uses them. A run may
    exceed the limit until the next measurement.
    """

    def __init__(
        self,
        *folders: Path,
        limit_bytes: int,
        processes: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._processes = processes
        self._next = time.monotonic() + EVERY_S

    def __call__(self) -> Reason | None:
        """Measure, unless the last measurement is recent; return DISK_LIMIT or None."""
        return self.look() if time.monotonic() >= self._next else None

    def look(self) -> Reason | None:
        """Measure now; return DISK_LIMIT or None."""
        began = time.monotonic()
        total = used(self._folders, self._limit)
        if total <= self._limit:
            devices = {folder.stat().st_dev for folder in self._folders}
            total += openfiles.removed(self._processes(), devices)
        now = time.monotonic()
        self._next = now + max(EVERY_S, SHARE * (now - began))
        return Reason.DISK_LIMIT if total > self._limit else None
