"""The size of a job's folders, looked at now and then."""

from __future__ import annotations

import time
from pathlib import Path

from runner.archive import source
from runner.core import Reason

EVERY_S = 2.0
SHARE = 20
"""Looking takes at most one part in so many of the time."""


class DiskWatch:
    """Says when the files below some folders have become too much together.

    What is written between two looks is accepted.
    """

    def __init__(self, *folders: Path, limit_bytes: int) -> None:
        self._folders, self._limit = folders, limit_bytes
        self._next = time.monotonic() + EVERY_S

    def __call__(self) -> Reason | None:
        """Look, unless the last look was a moment ago."""
        return self.look() if time.monotonic() >= self._next else None

    def look(self) -> Reason | None:
        """Look now."""
        began = time.monotonic()
        total = source.size(*self._folders)
        now = time.monotonic()
        self._next = now + max(EVERY_S, SHARE * (now - began))
        return Reason.DISK_LIMIT if total > self._limit else None
