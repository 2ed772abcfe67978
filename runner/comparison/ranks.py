"""Two rank tests with exact distributions: for pairs, and for two groups.

Both are randomisation tests: they ask how often shuffled labels would part the samples
as far as the real ones do, so that they hold for any distribution of the noise. On
ranks rather than on values a burst of noise counts no more than any other sample.

* Pairs: the signed-rank test (F. Wilcoxon, "Individual comparisons by ranking methods",
  Biometrics Bulletin 1, 1945). Who comes first in each pair is drawn at random. If both
  sides do the same, the draw is all that decides the sign of a pair's difference: every
  sign is a fair coin of its own, whatever the machine does in the meantime (R. A.
  Fisher, "The design of experiments", 1935, chapter 3). The greater half of the
  differences counts alike (winsorized scores: G. E. Policello and T. P. Hettmansperger,
  "Adaptive robust procedures for the one-sample location problem", Journal of the
  American Statistical Association 71, 1976), so that a few bursts hide no change.
* Two groups: the rank-sum test (the same; H. B. Mann and D. R. Whitney, "On a test of
  whether one of two random variables is stochastically larger than the other", Annals
  of Mathematical Statistics 18, 1947). It takes samples of one side for independent of
  each other, and the machine for unchanged between the sides.

The distributions are counted for the ranks as they are, ties included (B. Streitberg
and J. Röhmel, "Exact distributions for permutation and rank tests", Statistical
Software Newsletter 12, 1986). Beyond ``MOST_EXACT`` samples the normal approximation
takes their place.

The ratio of two sides, and its bootstrap interval.

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

MOST_EXACT = 80
"""The most samples, of both sides together, whose distribution is counted."""


def signed_rank(differences: Sequence[float]) -> float:
    """Return the two-sided probability of such signs if each is a fair coin.

    Differences of 0 say nothing and are left out.
    """
    told = [value for value in differences if value]
    if not told:
        return 1.0
    ranks = scores([abs(value) for value in told])
    up = sum(rank for rank, value in zip(ranks, told, strict=True) if value > 0)
    least = min(up, sum(ranks) - up)
    if len(told) > MOST_EXACT:
        spread = math.sqrt(math.fsum(rank * rank for rank in ranks)) / 2
        # Sums lie as far apart as this: a continuity correction is half of that.
        step = math.gcd(*ranks)
        return _normal((sum(ranks) / 2 - least - step / 2) / spread)
    return min(1.0, 2 * _at_most(tuple(sorted(ranks)), least))


def rank_sum(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the two-sided probability of such groups if they were drawn at random."""
    if not before or not after:
        return 1.0
    fewer, more = sorted((before, after), key=len)
    ranks = doubled_ranks([*fewer, *more])
    observed = sum(ranks[: len(fewer)])
    if len(ranks) > MOST_EXACT:
        return _normal(_standardized(ranks, len(fewer), observed))
    counts, width = _group_sums(tuple(sorted(ranks)), len(fewer))
    whole = math.comb(len(ranks), len(fewer))
    below = _sum(counts, observed, width)
    above = whole - _sum(counts, observed - 1, width)
    return min(1.0, 2 * min(below, above) / whole)


def scores(sizes: Sequence[float]) -> list[int]:
    """Return twice the rank of each size; the greater half has that of the median.

    Among the greatest are bursts of noise, whose signs tell nothing of the code.
    """
    return [min(rank, len(sizes)) for rank in doubled_ranks(sizes)]


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share their mean."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for at in order[start:end]:
            ranks[at] = start + 1 + end
        start = end
    return ranks


@lru_cache(maxsize=512)
def _at_most(ranks: tuple[int, ...], most: int) -> float:
    """Return how likely ranks with fair coins as their weights sum to ``most``."""
    width = len(ranks) + 1
    # One number is a polynomial: its digit s, of `width` bits, counts the choices
    # whose ranks sum to s. A shift by a rank adds that rank to every sum.
    counts = 1
    for rank in ranks:
        counts += counts << (rank * width)
    return math.ldexp(_sum(counts, most, width), -len(ranks))


@lru_cache(maxsize=64)
def _group_sums(ranks: tuple[int, ...], size: int) -> tuple[int, int]:
    """Return the sums of all groups of one size, as a polynomial, and its width."""
    width = math.comb(len(ranks), size).bit_length() + 1
    by_size = [1] + [0] * size
    for rank in ranks:
        for many in range(size, 0, -1):
            by_size[many] += by_size[many - 1] << (rank * width)
    return by_size[size], width


def _sum(counts: int, most: int, width: int) -> int:
    """Return the sum of a polynomial's coefficients up to one power."""
    if most < 0:
        return 0
    lowest = counts & ((1 << (most + 1) * width) - 1)
    # A number and the sum of its digits are the same modulo the base less 1.
    return lowest % ((1 << width) - 1)


def _standardized(ranks: Sequence[int], size: int, observed: int) -> float:
    n = len(ranks)
    middle = sum(ranks) / n
    spread = math.fsum((rank - middle) ** 2 for rank in ranks)
    deviation = math.sqrt(size * (n - size) / (n * (n - 1)) * spread)
    far = abs(observed - size * middle)
    return (far - 1) / deviation if deviation else 0.0


def _normal(deviations: float) -> float:
    return min(1.0, math.erfc(max(0.0, deviations) / math.sqrt(2)))


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
