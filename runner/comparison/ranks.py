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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

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
