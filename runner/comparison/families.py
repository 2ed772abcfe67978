"""How much a comparison may err: 1 wrong verdict of a change in 200 comparisons.

Two things multiply the chances to err, and both are paid for:

* Looks. A bench looks at the samples after fixed numbers of pairs and may stop there,
  so each look has a share of the 0.5 %: ``SPENT``. The shares and one more of the look
  that was last passed, for a bench that its budget ends in between, add up to no more
  (Bonferroni's inequality). A bench that ends before its first look is looked at once,
  as are two runs that were measured apart, and that look has all of it.
* Metrics. At each look the metrics share what it has by Holm's procedure with weights
  (S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian
  Journal of Statistics 6, 1979), which holds however the metrics depend on each other.
  The primary ones, those that a bench is about, have nine tenths together and the
  others one. What a metric no longer needs, because its change is found, passes on.
"""

from __future__ import annotations

from collections.abc import Sequence

LEVEL = 0.005
"""How often a comparison of identical code may find any change at all."""

SPENT: tuple[tuple[int, float], ...] = (
    (12, 0.0006),
    (18, 0.0008),
    (24, 0.0010),
    (30, 0.0013),
    (60, 0.0004),
    (120, 0.0004),
    (240, 0.0002),
)
"""After how many pairs a bench looks, and the share of ``LEVEL`` that each look has.

All signs of 12 pairs alike have 1 chance in 2048.
"""

PRIMARY_SHARE = 0.9


def looks(most: int) -> tuple[int, ...]:
    """Return after how many pairs a bench of ``most`` looks: there, and at its end."""
    return (*(pairs for pairs, _ in SPENT if pairs < most), most)


def level(pairs: int | None) -> float:
    """Return what one look may err, after so many pairs; None: measured apart."""
    shares = [share for at, share in SPENT if pairs is not None and at <= pairs]
    return shares[-1] if shares else LEVEL


def found(
    chances: Sequence[float], primary: Sequence[bool], allowed: float
) -> frozenset[int]:
    """Return which of several tests find a change, all together at one level.

    ``chances`` are the tests' probabilities under no change, ``primary`` tells which
    of the metrics are. Holm's procedure: of the tests left, the one that is smallest
    for its weight is compared with its share of the whole level.
    """
    many = sum(primary)
    few = len(primary) - many
    first = PRIMARY_SHARE if few else 1.0
    rest = 1 - PRIMARY_SHARE if many else 1.0
    weights = [first / many if one else rest / few for one in primary]
    order = sorted(range(len(chances)), key=lambda at: chances[at] / weights[at])
    left, changed = sum(weights), set[int]()
    for at in order:
        if chances[at] * left > allowed * weights[at]:
            break
        changed.add(at)
        left -= weights[at]
    return frozenset(changed)
