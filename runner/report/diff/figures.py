"""The metrics of two runs, with the verdicts that their mismatches leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from msgspec.structs import replace

from runner.comparison import (
    Change,
    Comparison,
    FigureChange,
    Unit,
    known,
    parsed,
    samples,
)
from runner.core import RunRecord
from runner.report.diff.nouns import Affected, Mismatch
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
    for one in found.metrics:
        reasons = (m.what for m in hard if _affects(m, one.metric, numbers))
        if because := next(reasons, ""):
            yield replace(one, verdict=Change.NOT_COMPARABLE, because=because)
        else:
            yield one
    shared = {one.metric for one in found.metrics}
    old, new = samples(aligned(before, after)), samples(after)
    for name in dict.fromkeys((*old, *new)):
        if name not in shared:
            yield _alone(name, known(old.get(name, ())), known(new.get(name, ())))


def _alone(name: str, old: Sequence[float], new: Sequence[float]) -> FigureChange:
    before, after = (median(each) if each else None for each in (old, new))
    return FigureChange(name, before, after, len(old), len(new))


def _affects(one: Mismatch, metric: str, numbers: dict[str, int]) -> bool:
    name = parsed(metric)
    if _AFFECTED[name.unit] not in one.affects:
        return False
    return one.command_number in (None, numbers.get(name.key))
