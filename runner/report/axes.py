"""An axis of times: its range, the place of a time on it, and its marks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, isfinite, log10

from msgspec import Struct

from runner.report.words import brief

WIDE = 8.0
"""Times that differ by more than this factor are drawn on a logarithmic axis."""

MARGIN = 0.08
LEAST_S = 1e-12


class TimeAxis(Struct, frozen=True):
    """A range of times in seconds, with `low` above 0 on a logarithmic axis."""

    low: float
    high: float
    logarithmic: bool

    def share(self, time_s: float) -> float:
        """Return how far along the axis a time is, 0 to 1."""
        low, high, at = self.low, self.high, min(max(time_s, self.low), self.high)
        if self.logarithmic:
            low, high, at = log10(low), log10(high), log10(at)
        return (at - low) / (high - low)

    def marks(self, most: int) -> list[tuple[float, str]]:
        """Return round times on the axis, at most so many, each with its text."""
        times = self._decades(most) if self.logarithmic else self._steps(most)
        return [(time_s, _text(time_s)) for time_s in times]

    def _steps(self, most: int) -> list[float]:
        for step in _round_numbers((self.high - self.low) / max(most, 1)):
            first, last = ceil(self.low / step), floor(self.high / step)
            if last - first < most:
                return [n * step for n in range(first, last + 1)]
        return []

    def _decades(self, most: int) -> list[float]:
        low, high = floor(log10(self.low)), ceil(log10(self.high))
        decades = range(low, high + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            every = [digit * 10.0**n for n in decades for digit in digits]
            found = [time_s for time_s in every if self.low <= time_s <= self.high]
            if len(found) <= most:
                return found
        return found[:: ceil(len(found) / max(most, 1))]


def axis(times_s: Iterable[float]) -> TimeAxis:
    """Return the axis that has room for all of some times."""
    seen = [max(t, LEAST_S) for t in times_s if isfinite(t)] or [1.0]
    low, high = min(seen), max(seen)
    if high / low > WIDE:
        return TimeAxis(low / 1.3, high * 1.3, logarithmic=True)
    margin = MARGIN * (high - low) or 0.5 * high
    return TimeAxis(max(0.0, low - margin), high + margin, logarithmic=False)


def _round_numbers(least: float) -> Iterable[float]:
    """Yield 1, 2 and 5 of each power of ten from a number on."""
    decade = floor(log10(least))
    for n in range(decade, decade + 3):
        yield from (x for digit in (1, 2, 5) if (x := digit * 10.0**n) >= least)


def _text(time_s: float) -> str:
    """Format a round time: 20 ms, 1.5 s."""
    if time_s < LEAST_S:
        return "0 s"
    number, unit = brief(time_s).split()
    return f"{float(number):g} {unit}"
