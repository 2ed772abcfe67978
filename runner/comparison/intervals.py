"""The ratio of two sides, and its bootstrap interval.

The ratio is that of typical samples: the exponential of the mean of the middle third of
the logarithms, a trimmed mean (J. W. Tukey and D. H. McLaughlin, "Less vulnerable
confidence and significance procedures for location based on a single sample", Sankhya A
25, 1963). A few bursts of noise do not move it, as they do not move the median, and it
is steadier than the median where samples lie in two heaps, such as those of a clock
with two rates.

The interval is the percentile interval of the bootstrap (B. Efron, "Bootstrap methods:
another look at the jackknife", Annals of Statistics 7, 1979): pairs are resampled as
pairs, separate runs each for themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from random import Random

CONFIDENCE = 0.995
RESAMPLES = 2000
"""How many resamples an interval is of; half of them mirror the other half."""

MOST_PARTS, PART = 6, 5

_SEED = 20
Pick = Callable[[Sequence[float]], tuple[float, ...]]


def middle(values: Sequence[float]) -> float:
    """Return the mean of the middle third of some values: of all but n // 3 a side."""
    cut = _cut(len(values))
    kept = sorted(values)[cut : len(values) - cut]
    return math.fsum(kept) / len(kept)


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the middle of at least 4 logarithms of ratios."""
    ordered = sorted(differences)
    kept = len(ordered) - 2 * _cut(len(ordered))
    return _ends([sum(pick(ordered)) / kept for pick in _picks(len(ordered))])


def apart(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """Return the interval of how far ``after``'s middle lies above that of ``before``.

    Both are at least 10 logarithms, in the order in which they were measured. Samples
    that follow each other are alike, and the machine changes between the runs: the
    bootstrap, which takes them for independent, is too narrow. So each end moves out by
    how far both sides wandered within themselves, which tells how far the machine may
    have moved between them. A rule of thumb: no statistic of two runs can tell the code
    from the hour. benchmarks/comparison.py measures how often it is wrong.
    """
    low, high = _apart(before, after)
    moved = wander(before) + wander(after)
    return low - moved, high + moved


def wander(values: Sequence[float]) -> float:
    """Return how far apart the middles of successive parts of a run lie.

    A run has up to six parts, of five samples at least.
    """
    many = min(MOST_PARTS, len(values) // PART)
    if many < 2:
        return 0.0
    ends = [len(values) * at // many for at in range(many + 1)]
    middles = [middle(values[a:b]) for a, b in pairwise(ends)]
    return max(middles) - min(middles)


def _apart(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    one, other = sorted(before), sorted(after)
    old, new = (len(each) - 2 * _cut(len(each)) for each in (one, other))
    half = RESAMPLES // 2
    # Each side has the first draws for one half and the second for the other, so that
    # swapped sides have the inverse interval here too.
    picks = [
        (a(one), b(other))
        for first, second in ((0, 1), (1, 0))
        for a, b in zip(
            _picks(len(one), first)[:half],
            _picks(len(other), second)[:half],
            strict=True,
        )
    ]
    return _ends([sum(b) / new - sum(a) / old for a, b in picks])


def _cut(n: int) -> int:
    """Return how many of n values the mean leaves out at each end."""
    return n // 3


def _ends(resampled: list[float]) -> tuple[float, float]:
    resampled.sort()
    tail = int((1 - CONFIDENCE) / 2 * len(resampled))
    return resampled[tail], resampled[-1 - tail]


@lru_cache(maxsize=32)
def _picks(n: int, turn: int = 0) -> tuple[Pick, ...]:
    """Return functions that pick the middle third of a resample out of sorted values.

    The same for each metric, so that a comparison of many draws once, and for each
    call, so that the same samples always have the same interval. Each draw stands
    beside its mirror image: the interval of swapped sides is the inverse.
    """
    random, cut = Random(_SEED + turn), _cut(n)
    drawn = []
    for _ in range(RESAMPLES // 2):
        # Sorted places of sorted values give the resample in its order.
        places = sorted(random.choices(range(n), k=n))[cut : n - cut]
        drawn += [places, [n - 1 - place for place in places]]
    return tuple(itemgetter(*places) for places in drawn)
