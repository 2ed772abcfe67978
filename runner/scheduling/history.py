"""What a queue remembers of its past: who started last, and how long runs take."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

REMEMBERED = 20
"""So many of the latest runs of a team count for how long its next one takes."""

_ALL = ""


class QueueHistory:
    """When teams last had a run started, by lane, and how long their runs took.

    It only serves turns and estimates, and can be made again from the runs of a day.
    """

    def __init__(self) -> None:
        self._started: dict[tuple[str, str], tuple[float, int]] = {}
        self._starts = 0
        self._took: dict[tuple[str, str], deque[float]] = {}
        self._medians: dict[tuple[str, str], float] = {}

    def note_start(self, team: str, lane: str, at: float) -> None:
        """Note that a team had a run started; of one moment the later call is later."""
        self._starts += 1
        start = at, self._starts
        self._started[team, lane] = max(start, self.last_start(team, lane))

    def note_end(self, team: str, lane: str, took_s: float) -> None:
        """Note how long a run took."""
        for name in (team, _ALL):
            kept = self._took.setdefault((name, lane), deque(maxlen=REMEMBERED))
            kept.append(max(took_s, 0.0))
            self._medians.pop((name, lane), None)

    def last_start(self, team: str, lane: str) -> tuple[float, int]:
        """Return when a team last had a run started; minus infinity for never.

        The number tells the starts of one moment apart, as of one decision.
        """
        return self._started.get((team, lane), (-math.inf, 0))

    def usual_s(self, team: str, lane: str) -> float | None:
        """Return how long a run should take: the median of the team's, or of all."""
        own = self._median((team, lane))
        return self._median((_ALL, lane)) if own is None else own

    def _median(self, key: tuple[str, str]) -> float | None:
        if (kept := self._took.get(key)) is None:
            return None
        if key not in self._medians:
            self._medians[key] = median(kept)
        return self._medians[key]
