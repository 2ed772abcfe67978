"""What changed between two sides: each metric with its ratio, interval and verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from runner.comparison import families, ranks
from runner.comparison.metrics import (
    PEAK_MEMORY,
    Samples,
    Unit,
    known,
    parsed,
    samples,
)
from runner.core import RunRecord

LEAST = 10
"""The fewest samples a side of a verdict."""

MARGIN = 0.02
"""How far from 1 an interval may reach that shows no difference."""

MOST_RATIO = 1e9
"""What stands for a greater ratio, and for that of a value to 0."""

_DIGITS = 12
"""Decimals of a logarithm that count; those beyond are the rounding of floats."""

_LEAST_VALUE = 1e-300
"""What stands for 0, which has no logarithm."""


class Change(StrEnum):
    """The verdict on one metric: times are faster or slower, others higher or lower.

    It is inconclusive where the noise leaves the interval too wide.
    """

    FASTER = "faster"
    SLOWER = "slower"
    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    NOT_ENOUGH = "not enough samples"

    @property
    def found(self) -> bool:
        """Whether it says that something changed."""
        return self in (Change.FASTER, Change.SLOWER, Change.HIGHER, Change.LOWER)


class ComparedMetric(Struct, frozen=True):
    """One metric of two sides.

    ``before`` and ``after`` are the medians: seconds, bytes or a share. ``ratio`` is
    after / before of typical samples, in pairs of typical pairs (``intervals``), and
    ``interval`` its 99.5 % bootstrap interval, None with fewer than LEAST samples a
    side. In pairs both counts are that of the pairs. ``chance`` is how likely the
    test's result would be if nothing had changed, before any correction. ``primary``
    metrics decide when a bench may stop.
    """

    metric: str
    before: float
    after: float
    n_before: int
    n_after: int
    ratio: float
    interval: tuple[float, float] | None = None
    change: Change = Change.NOT_ENOUGH
    primary: bool = False
    chance: float | None = None


class Comparison(Struct, frozen=True):
    """All metrics that two runs share, primary ones first.

    ``paired`` says whether their rounds were interleaved; otherwise they were measured
    apart. ``pairs`` is how many rounds of each there are.
    """

    metrics: tuple[ComparedMetric, ...]
    paired: bool
    pairs: int


def are_paired(before: RunRecord, after: RunRecord) -> bool:
    """Return whether the two runs were measured beside each other, round by round."""
    return before.id != after.id and (
        before.beside == after.id or after.beside == before.id
    )


def compare_runs(
    before: RunRecord, after: RunRecord, *, named: Collection[str] = ()
) -> Comparison:
    """Return how a run's samples differ from those of another.

    The first round of a run measured beside another was not interleaved, and is left
    out. ``named`` are the metrics that a gate names.
    """
    paired = are_paired(before, after)
    one, other = (samples(run, first=not paired) for run in (before, after))
    compared = compare(one, other, paired=paired, named=named)
    fewest = (min(c.n_before, c.n_after) for c in compared)
    return Comparison(compared, paired, max(fewest, default=0))


def compare(
    before: Samples, after: Samples, *, paired: bool, named: Collection[str] = ()
) -> tuple[ComparedMetric, ...]:
    """Return the metrics that both sides have, each with its verdict.

    In pairs the values of both sides belong together by their place; a round that has
    no value on one side is left out on both.

    Primary are the metrics that ``named`` covers, the op times, and where there is no
    op time the commands' times. A change is found where the test finds it (``ranks``,
    corrected in ``families``) and the interval leaves out 1; no difference where the
    interval lies within MARGIN of 1.
    """
    both = [metric for metric in before if metric in after]
    main = _primary(both, named)
    measured = []
    for metric in sorted(both, key=lambda name: name not in main):
        one = _measured(metric, before[metric], after[metric], paired, metric in main)
        measured += [one] if one else []
    return _judged(measured, paired)


def _primary(metrics: Sequence[str], named: Collection[str]) -> frozenset[str]:
    names = {metric: parsed(metric) for metric in metrics}
    asked = [parsed(name) for name in named]
    times = [m for m, name in names.items() if name.kind == "op_time"] or [
        m for m, name in names.items() if (name.kind, name.part) == ("command", "wall")
    ]
    covered = [m for m, name in names.items() if any(a.covers(name) for a in asked)]
    return frozenset((*times, *covered))


def _measured(
    metric: str,
    before: Sequence[float],
    after: Sequence[float],
    paired: bool,
    primary: bool,
) -> ComparedMetric | None:
    """Return a metric before its verdict; None if a side has no value."""
    if paired and metric != PEAK_MEMORY:
        pairs = [
            pair
            for pair in zip(before, after, strict=False)
            if not (math.isnan(pair[0]) or math.isnan(pair[1]))
        ]
        old, new = [one for one, _ in pairs], [other for _, other in pairs]
    else:
        old, new = known(before), known(after)
    if not old or not new:
        return None
    one, other = _logarithms(old), _logarithms(new)
    enough = min(len(old), len(new)) >= LEAST
    ends: tuple[float, float] | None = None
    chance: float | None = None
    if paired and len(old) == len(new):
        differences = [_rounded(b - a) for a, b in zip(one, other, strict=True)]
        ratio = ranks.middle(differences)
        if enough:
            chance = ranks.signed_rank(differences)
            ends = ranks.interval(differences)
    else:
        ratio = _rounded(ranks.middle(other) - ranks.middle(one))
        if enough:
            chance = ranks.rank_sum(one, other)
            ends = ranks.apart(one, other)
    return ComparedMetric(
        metric,
        statistics.median(old),
        statistics.median(new),
        len(old),
        len(new),
        math.exp(ratio),
        None if ends is None else (_ratio(ends[0]), _ratio(ends[1])),
        primary=primary,
        chance=chance,
    )


def _logarithms(values: Sequence[float]) -> list[float]:
    return [math.log(max(value, _LEAST_VALUE)) for value in values]


def _rounded(difference: float) -> float:
    """Return a logarithm of a ratio, within bounds."""
    most = math.log(MOST_RATIO)
    return round(max(-most, min(most, difference)), _DIGITS)


def _ratio(logarithm: float) -> float:
    return math.exp(_rounded(logarithm))


def _judged(
    measured: Sequence[ComparedMetric], paired: bool
) -> tuple[ComparedMetric, ...]:
    """Return the metrics with their verdicts, which they share the risk of."""
    tests = [(at, one.chance) for at, one in enumerate(measured)]
    told = [(at, chance) for at, chance in tests if chance is not None]
    allowed = families.level(max((measured[at].n_after for at, _ in told), default=0))
    moved = families.found(
        [chance for _, chance in told],
        [measured[at].primary for at, _ in told],
        allowed if paired else families.level(None),
    )
    changed = {told[place][0] for place in moved}
    return tuple(
        replace(one, change=_change(one, at in changed))
        for at, one in enumerate(measured)
    )


def _change(one: ComparedMetric, changed: bool) -> Change:
    if one.interval is None:
        return Change.NOT_ENOUGH
    low, high = one.interval
    if changed and not low <= 1 <= high:
        timed = parsed(one.metric).unit is Unit.SECONDS
        if low > 1:
            return Change.SLOWER if timed else Change.HIGHER
        return Change.FASTER if timed else Change.LOWER
    if low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN:
        return Change.NO_DIFFERENCE
    return Change.INCONCLUSIVE


def stands(compared: Sequence[ComparedMetric], pairs: int, most: int) -> bool:
    """Return whether a bench may stop after so many pairs of ``most``.

    It may at its looks only, so ask after each pair. It goes on while a primary metric
    has no verdict, and while a metric that is off by more than MARGIN, by its interval
    too, has none: with many metrics more pairs are needed to tell which changed.
    """
    if pairs >= most:
        return True
    if pairs not in families.looks(most):
        return False
    main = [one for one in compared if one.primary and one.interval is not None]
    return bool(main) and not any(
        one.change is Change.INCONCLUSIVE and (one.primary or _stands_out(one))
        for one in compared
        if one.interval is not None
    )


def _stands_out(one: ComparedMetric) -> bool:
    low, high = one.interval or (1.0, 1.0)
    far = abs(math.log(one.ratio)) > math.log(1 + MARGIN)
    return far and not low <= 1 <= high
