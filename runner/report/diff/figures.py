"""The metrics of two runs, with the verdicts that their mismatches leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import median

from msgspec.structs import replace

from runner.comparison import (
    ComparedMetric,
    Comparison,
    Unit,
    known,
    parsed,
    samples,
)
from runner.core import RunRecord
from runner.report.diff.nouns import NOT_COMPARABLE, Affected, FigureChange, Mismatch
from runner.report.pairs import aligned

_AFFECTED = {
    Unit.SECONDS: Affected.TIMES,
    Unit.BYTES: Affected.MEMORY,
    Unit.SHARE: Affected.RESULTS,
}


def changes(
    before: RunRecord,
    after: RunRecord,
    found: Comparison,
    mismatches: Sequence[Mismatch],
) -> Iterator[FigureChange]:
    """Yield the metrics of both runs, then those of one.

    A metric that a hard mismatch affects gets no other verdict.
    """
    hard = [one for one in mismatches if one.hard]
    numbers = {str(c.index + 1): c.index + 1 for c in after.first_round}
    numbers |= {c.name: c.index + 1 for c in after.first_round if c.name}
    for metric in found.metrics:
        change = _changed(metric)
        reasons = (m.what for m in hard if _affects(m, metric.metric, numbers))
        if because := next(reasons, ""):
            change = replace(change, verdict=NOT_COMPARABLE, because=because)
        yield change
    shared = {one.metric for one in found.metrics}
    old, new = samples(aligned(before, after)), samples(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in shared:
            yield _alone(name, known(old.get(name, ())), known(new.get(name, ())))


def _affects(one: Mismatch, metric: str, numbers: dict[str, int]) -> bool:
    name = parsed(metric)
    if _AFFECTED[name.unit] not in one.affects:
        return False
    return one.command_number in (None, numbers.get(name.key))


def _changed(one: ComparedMetric) -> FigureChange:
    low, high = one.interval or (None, None)
    return FigureChange(
        metric=one.metric,
        before=_finite(one.before),
        after=_finite(one.after),
        n_before=one.n_before,
        n_after=one.n_after,
        ratio=_finite(one.ratio),
        low=_finite(low),
        high=_finite(high),
        verdict=one.change.value,
        primary=one.primary,
    )


def _alone(metric: str, old: Sequence[float], new: Sequence[float]) -> FigureChange:
    return FigureChange(
        metric=metric,
        before=median(old) if old else None,
        after=median(new) if new else None,
        n_before=len(old),
        n_after=len(new),
        ratio=None,
        low=None,
        high=None,
        verdict="",
    )


def _finite(value: float | None) -> float | None:
    """Return a number that JSON can hold; None for infinity and what is not known."""
    return value if value is not None and isfinite(value) else None
