"""Compare two sides in pairs: one exact test, one interval, and their risk.

Each pair gives one number, the logarithm of its ratio.

The test is the signed-rank test (F. Wilcoxon, "Individual comparisons by ranking
methods", Biometrics Bulletin 1, 1945). `rai bench` draws the order within each pair at
random, so for identical code every sign is a fair coin, whatever the machine does in
the meantime (R. A. Fisher, "The design of experiments", 1935, chapter 3). The
distribution is counted for the ranks as they are, ties included; beyond MOST_EXACT
pairs the normal approximation takes its place.

The interval has the ratios that the same test does not reject. Its ends and its middle
are order statistics of the averages of all two pairs, Walsh averages (J. L. Hodges and
E. L. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical
Statistics 34, 1963; M. Hollander and D. A. Wolfe, "Nonparametric statistical methods",
sections 3.2 and 3.3). Both sides have the same noise, so the ratios lie symmetrically
about the change, whatever the noise's shape; there the middle estimates their median.
Where they do not, such as a clock that only one side meets, it estimates the median of
the averages of two pairs.

Pairs that follow each other may be alike. Then fewer of them are independent, n (1 - r)
/ (1 + r) of n (G. V. Bayley and J. M. Hammersley, "The effective number of independent
observations in an autocorrelated time series", Supplement to the Journal of the Royal
Statistical Society 8, 1946), where r is the correlation of neighbours. So the interval
becomes wider, see ``interval``.

benchmarks/coverage.py measures how often the interval holds the true ratio.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, pairwise

CONFIDENCE = 0.995

MOST_PAIRS = 500
"""The most pairs that are looked at: their averages are 125,000."""

MOST_EXACT = 80
"""The most pairs whose distribution is counted."""

SERIES = 20
"""So few pairs that are correlated give no verdict."""

_MOST_CORRELATION = 0.95

LEVEL = 0.005
"""How often a comparison of identical code may find any change at all."""

SPENT: dict[int, float] = {
    12: 0.0006,
    18: 0.0007,
    24: 0.0009,
    60: 0.0005,
    120: 0.0004,
    240: 0.0004,
}
"""After how many pairs a bench looks, and the share of ``LEVEL`` that each look has.

All signs of 12 pairs alike have 1 chance in 2048, so that they decide one Op Time. A
bench that ends between looks has one more, with what the looks before it have left, so
that all of them together err no more than ``LEVEL`` (Bonferroni's inequality).
"""

PRIMARY_SHARE = 0.9
"""The share of the risk that the metrics have which a bench is about."""


def signed_rank(logs: Sequence[float]) -> float:
    """Return the two-sided probability of such signs if each is a fair coin.

    Pairs whose sides are equal say nothing and are left out.
    """
    told = [value for value in logs if value]
    if not told:
        return 1.0
    ranks = doubled_ranks([abs(value) for value in told])
    up = sum(rank for rank, value in zip(ranks, told, strict=True) if value > 0)
    least = min(up, sum(ranks) - up)
    return min(1.0, 2 * _at_most(tuple(sorted(ranks)), least))


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Return low end, middle and high end of the interval of at least 10 pairs.

    Correlated pairs have an interval that is ((1 + r) / (1 - r)) ** (18 / n) times as
    wide, where n counts as 20 at least and 30 at most: more than the formula's square
    root, as few pairs tell r badly. The power is by simulation: with r = 0.7 the
    interval of 20 to 60 pairs then holds the truth in 97 of 100, and one of independent
    pairs seldom becomes wide.
    """
    n, averages = len(logs), sorted(map(sum, combinations_with_replacement(logs, 2)))
    out, half = _left_out(n), len(averages) // 2
    low, high = averages[out] / 2, averages[~out] / 2
    middle = (averages[half] + averages[~half]) / 4
    r = min(max(correlation(logs), 0.0), _MOST_CORRELATION)
    wider = ((1 + r) / (1 - r)) ** (18 / min(max(n, SERIES), 30))
    return middle + wider * (low - middle), middle, middle + wider * (high - middle)


def correlation(logs: Sequence[float]) -> float:
    """Return how alike neighbours are: the correlation of the ranks of successive ones.

    It is corrected for the bias of short series (F. H. C. Marriott and J. A. Pope,
    "Bias in the estimation of autocorrelations", Biometrika 41, 1954). Ranks keep a
    burst of noise from hiding or feigning it.
    """
    n = len(logs)
    ranks = [rank - (n + 1) for rank in doubled_ranks(logs)]
    whole = sum(rank * rank for rank in ranks)
    if not whole:
        return 0.0
    return (n * sum(a * b for a, b in pairwise(ranks)) / whole + 1) / (n - 3)


def too_alike(logs: Sequence[float]) -> bool:
    """Whether the pairs are too few for how alike neighbours are."""
    return len(logs) < SERIES and correlation(logs) >= 1 / math.sqrt(len(logs))


def wander(logs: Sequence[float]) -> float:
    """Return how far apart the medians of successive parts of one run lie.

    A run has up to six parts, of five samples at least. It tells how far the machine
    may have moved between two runs that were measured apart: a rule of thumb, as no
    statistic of two runs can tell the code from the hour.
    """
    many = min(6, len(logs) // 5)
    ends = [len(logs) * at // many for at in range(many + 1)]
    medians = [statistics.median(logs[a:b]) for a, b in pairwise(ends)]
    return max(medians) - min(medians)


def doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each value, from 2; equal values share their mean."""
    ordered = sorted(values)
    first = {value: at for at, value in reversed(list(enumerate(ordered)))}
    last = {value: at for at, value in enumerate(ordered)}
    return [first[value] + last[value] + 2 for value in values]


@lru_cache(maxsize=512)
def _at_most(ranks: tuple[int, ...], most: int) -> float:
    """Return how likely ranks with fair coins as their weights sum to ``most``."""
    if len(ranks) > MOST_EXACT:
        # Sums lie as far apart as this: a continuity correction is half of that.
        step = math.gcd(*ranks)
        spread = math.sqrt(math.fsum(rank * rank for rank in ranks)) / 2
        return statistics.NormalDist(sum(ranks) / 2, spread).cdf(most + step / 2)
    width = len(ranks) + 1
    # One number is a polynomial: its digit s, of `width` bits, counts the choices
    # whose ranks sum to s. A shift by a rank adds that rank to every sum.
    counts = 1
    for rank in ranks:
        counts += counts << (rank * width)
    lowest = counts & ((1 << (most + 1) * width) - 1)
    # A number and the sum of its digits are the same modulo the base less 1.
    return math.ldexp(lowest % ((1 << width) - 1), -len(ranks))


@lru_cache(maxsize=64)
def _left_out(n: int) -> int:
    """Return how many of the averages of n pairs lie beyond each end."""
    ranks, tail = tuple(range(1, n + 1)), (1 - CONFIDENCE) / 2
    sums = range(n * (n + 1) // 2)
    return bisect_right(sums, tail, key=lambda most: _at_most(ranks, most)) - 1


def looks(most: int) -> tuple[int, ...]:
    """Return after how many pairs a bench of ``most`` looks: there, and at its end."""
    return (*(pairs for pairs in SPENT if pairs < most), most)


def level(pairs: int) -> float:
    """Return what the look after so many pairs may err."""
    passed = sum(share for at, share in SPENT.items() if at < pairs)
    return SPENT.get(pairs, LEVEL - passed)


def found(
    chances: Mapping[str, float], primary: Collection[str], allowed: float
) -> frozenset[str]:
    """Return the metrics whose tests find a change, all together at one level.

    ``chances`` are the tests' probabilities under no change. It is Holm's procedure
    with weights, which holds however the metrics depend on each other (S. Holm, "A
    simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979): of the tests left, the one that is smallest for its weight is
    compared with its share of the whole level. ``primary`` metrics have PRIMARY_SHARE
    of the weight together.
    """
    many = sum(metric in primary for metric in chances)
    few = len(chances) - many
    weights = {
        metric: PRIMARY_SHARE / many if metric in primary else (1 - PRIMARY_SHARE) / few
        for metric in chances
    }
    left, changed = sum(weights.values()), set[str]()
    for metric in sorted(chances, key=lambda name: chances[name] / weights[name]):
        if chances[metric] * left > allowed * weights[metric]:
            break
        changed.add(metric)
        left -= weights[metric]
    return frozenset(changed)
