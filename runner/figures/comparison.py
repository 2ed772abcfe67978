"""What changed between two sides: each metric with its ratio, interval and verdict."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from runner.core import RunRecord
from runner.figures import statistics as tests
from runner.figures.statistics import (
    Samples,
    Unit,
    amount,
    known,
    parsed,
    percent,
    samples,
)

LEAST = 10
"""The fewest samples a side of a verdict."""

MARGIN = 0.02
"""How far from 1 an interval may reach that shows no difference."""

_MOST = math.log(1e9)
"""The logarithm of what stands for a greater ratio, and for that of a value to 0."""

_DIGITS = 9
"""Decimals of a logarithm that count: programs print no finer times."""

_LEAST_VALUE = 1e-300
"""What stands for 0, which has no logarithm."""


class Change(StrEnum):
    """The verdict on one metric: times are faster or slower, others higher or lower.

    It is inconclusive where the noise leaves the interval too wide, and empty where one
    run lacks the metric.
    """

    FASTER = "faster"
    SLOWER = "slower"
    HIGHER = "higher"
    LOWER = "lower"
    NO_DIFFERENCE = "no difference"
    INCONCLUSIVE = "inconclusive"
    NOT_ENOUGH = "not enough samples"
    NOT_COMPARABLE = "not comparable"
    NONE = ""

    @property
    def found(self) -> bool:
        """Whether it says that something changed."""
        return self in (Change.FASTER, Change.SLOWER, Change.HIGHER, Change.LOWER)


class FigureChange(Struct, frozen=True):
    """A metric of both runs, or of one, as gates name it: medians, and the verdict.

    Times are in seconds, memory in bytes; None where a run has none. ``n_before`` and
    ``n_after`` count samples, which are the pairs if runs were measured in turn.
    ``ratio`` is after / before of typical pairs, ``low`` to ``high`` its 99.5 %
    interval (``paired``); None without LEAST samples a side. ``primary`` metrics decide
    when a bench may stop. ``because`` names the mismatch that makes it not comparable,
    or why it is inconclusive if noise is not the reason.
    """

    metric: str
    before: float | None
    after: float | None
    n_before: int
    n_after: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: Change = Change.NONE
    primary: bool = False
    because: str = ""

    @property
    def same(self) -> bool:
        """Whether both runs have the same value."""
        return self.before == self.after

    @property
    def span(self) -> tuple[float, float, float] | None:
        """Low end, ratio and high end; None without enough samples."""
        if self.low is None or self.ratio is None or self.high is None:
            return None
        return self.low, self.ratio, self.high


class Comparison(Struct, frozen=True):
    """All metrics that two runs share, primary ones first.

    ``paired`` says whether their rounds were interleaved; otherwise they were measured
    apart. ``pairs`` is how many rounds of each there are.
    """

    metrics: tuple[FigureChange, ...]
    paired: bool
    pairs: int


def compare_runs(
    before: RunRecord, after: RunRecord, *, named: Collection[str] = ()
) -> Comparison:
    """Return how a run's samples differ from those of another.

    The first round of a run measured beside the other was not interleaved, and is left
    out. ``named`` are the metrics that a gate names.
    """
    beside = before.beside == after.id or after.beside == before.id
    paired = beside and before.id != after.id
    one, other = (samples(run, first=not paired) for run in (before, after))
    compared = compare(one, other, paired=paired, named=named)
    fewest = (min(c.n_before, c.n_after) for c in compared)
    return Comparison(compared, paired, max(fewest, default=0))


def compare(
    before: Samples, after: Samples, *, paired: bool, named: Collection[str] = ()
) -> tuple[FigureChange, ...]:
    """Return the metrics that both sides have, each with its verdict.

    In pairs the values of both sides belong together by their place; a round that has
    no value on one side is left out on both. Of runs apart the last value before is
    paired with the first one after, and so on, and each end of the interval moves out
    by how far both runs wandered within themselves.

    Primary are the metrics that ``named`` covers, the op times, and where there is no
    op time the commands' times. A change is found where the test finds it and the
    interval leaves out 1; no difference where the interval lies within MARGIN of 1.
    """
    both = {name: (before[name], after[name]) for name in before if name in after}
    values = {name: counted(*each, paired) for name, each in both.items()}
    values = {name: found for name, found in values.items() if all(found)}
    logs = {name: _logs(*found, paired) for name, found in values.items()}
    main = _primary(list(values), named)
    enough = {name: each for name, each in logs.items() if len(each) >= LEAST}
    # A bench looks after so many rounds, whichever of them have a value.
    rounds = max((min(map(len, each)) for each in both.values()), default=0)
    changed = tests.found(
        {name: tests.signed_rank(each) for name, each in enough.items()},
        main,
        tests.level(rounds) if paired else tests.LEVEL,
    )
    return tuple(
        _figure(name, *values[name], logs[name], paired, name in changed, name in main)
        for name in sorted(values, key=lambda name: name not in main)
    )


def _primary(metrics: Sequence[str], named: Collection[str]) -> frozenset[str]:
    names = {metric: parsed(metric) for metric in metrics}
    asked = [parsed(name) for name in named]
    times = [m for m, name in names.items() if name.kind == "op_time"] or [
        m for m, name in names.items() if (name.kind, name.part) == ("command", "wall")
    ]
    covered = [m for m, name in names.items() if any(a.covers(name) for a in asked)]
    return frozenset((*times, *covered))


def counted(
    before: Sequence[float], after: Sequence[float], paired: bool
) -> tuple[list[float], list[float]]:
    """Return the values of a metric that count on each side."""
    if not paired:
        return known(before), known(after)
    both = zip(before, after, strict=False)
    pairs = [pair for pair in both if not any(map(math.isnan, pair))]
    return [one for one, _ in pairs], [other for _, other in pairs]


def _logs(before: Sequence[float], after: Sequence[float], paired: bool) -> list[float]:
    """Return the logarithm of each pair's ratio."""
    first = before if paired else before[::-1]
    pairs = islice(zip(first, after, strict=False), tests.MOST_PAIRS)
    return [_rounded(_logarithm(new) - _logarithm(old)) for old, new in pairs]


def _logarithm(value: float) -> float:
    return math.log(max(value, _LEAST_VALUE))


def _rounded(logarithm: float) -> float:
    """Return a logarithm of a ratio, within bounds."""
    return round(max(-_MOST, min(_MOST, logarithm)), _DIGITS)


def _figure(
    metric: str,
    old: Sequence[float],
    new: Sequence[float],
    logs: Sequence[float],
    paired: bool,
    changed: bool,
    primary: bool,
) -> FigureChange:
    one = FigureChange(
        metric,
        statistics.median(old),
        statistics.median(new),
        len(old),
        len(new),
        math.exp(statistics.median(logs)),
        verdict=Change.NOT_ENOUGH,
        primary=primary,
    )
    if len(logs) < LEAST:
        return one
    low, middle, high = tests.interval(logs)
    sides = () if paired else (old, new)
    moved = sum(tests.wander(list(map(_logarithm, side))) for side in sides)
    ends = (low - moved, middle, high + moved)
    low, ratio, high = (math.exp(_rounded(end)) for end in ends)
    timed = parsed(metric).unit is Unit.SECONDS
    verdict, because = Change.INCONCLUSIVE, ""
    if tests.too_alike(logs):
        because = f"neighbours are alike, which takes {tests.SERIES} pairs or more"
    elif changed and low > 1:
        verdict = Change.SLOWER if timed else Change.HIGHER
    elif changed and high < 1:
        verdict = Change.FASTER if timed else Change.LOWER
    elif low >= 1 / (1 + MARGIN) and high <= 1 + MARGIN:
        verdict = Change.NO_DIFFERENCE
    return replace(
        one, ratio=ratio, low=low, high=high, verdict=verdict, because=because
    )


def stands(compared: Sequence[FigureChange]) -> bool:
    """Return whether a bench may stop at a look.

    It goes on while a primary metric has no verdict, and while a metric that is off by
    more than MARGIN, by its interval too, has none: with many metrics more pairs are
    needed to tell which changed.
    """
    for one in compared:
        low, ratio, high = one.span or (1.0, 1.0, 1.0)
        far = abs(math.log(ratio)) > math.log(1 + MARGIN) and not low <= 1 <= high
        if one.verdict is Change.INCONCLUSIVE and (one.primary or far):
            return False
    return any(one.primary and one.span for one in compared)


def sentence(one: FigureChange, *, paired: bool) -> str:
    """Return the verdict on a metric of both runs, and what it rests on."""
    if one.verdict is Change.NOT_COMPARABLE:
        return f"{one.metric}: not comparable ({one.because} differs)"
    old, new = (amount(one.metric, each or 0.0) for each in (one.before, one.after))
    values = f"medians {old} before, {new} after"
    counts = f"{one.n_before} and {one.n_after} samples"
    if paired:
        counts = f"{one.n_after} pair{'s' if one.n_after != 1 else ''}"
    if one.span is None:
        many = f"{counts}; a verdict needs {LEAST} of each"
        return f"{one.metric}: not enough samples ({many}); {values}"
    low, change, high = map(percent, one.span)
    apart = "" if paired else "; measured apart, so the machine may have changed too"
    basis = f"99.5 % interval {low} to {high}, {counts}{apart}"
    if one.verdict is Change.NO_DIFFERENCE:
        margin = f"{100 * MARGIN:g} %"
        return f"{one.metric}: no difference over {margin}: {change} ({basis})"
    if one.verdict is Change.INCONCLUSIVE:
        more = one.because or f"more {'pairs' if paired else 'rounds'} narrow it"
        return f"{one.metric}: inconclusive: {change} ({basis}; {more})"
    return f"{one.metric} is {one.verdict}: {change} ({basis}); {values}"
