"""One's own accepted submissions on this machine: what `rai ranking` lists. Pure.

Times compare within a milestone, an accuracy class, a model of GPU and an engine, so
each of these has a list of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from runner.core.measurement import MeasuredEntry, Measurement, MeasurementHost


class RankedVariant(Struct, frozen=True, rename={"accuracy": "class"}):
    """One variant of an accepted submission; times in milliseconds.

    ``gpu`` is "" and the times are None where only the result was checked. ``run`` is
    the id of the run that measured it, ``at`` when that began, in seconds since 1970.
    """

    milestone: str
    accuracy: str
    gpu: str
    engine: str
    variant: str
    ms: float | None
    ratio: float | None
    interval: tuple[float, float] | None
    run: str
    tag: str
    commit: str
    at: float

    @property
    def board(self) -> tuple[str, str, str, str]:
        """What it is compared within."""
        return self.milestone, self.accuracy, self.gpu, self.engine


def standings(
    found: Iterable[tuple[str, str, Measurement]],
    milestone: str | None = None,
    number: int | None = None,
) -> list[RankedVariant]:
    """Return the entries of measurements that count, board after board, the best first.

    Each measurement comes with the id and the tag of its run; ``milestone`` chooses
    one, by its name. Of results without a time a board has only the latest, of others
    at most ``number``.
    """
    every = [
        _standing(run, tag, measurement, host, entry)
        for run, tag, measurement in found
        if milestone in (None, measurement.milestone.lower())
        if measurement.counts and (host := measurement.host) is not None
        for entry in measurement.entries
    ]
    every.sort(key=lambda one: (one.board, one.ratio or 0.0, -one.at, one.run))
    listed: list[RankedVariant] = []
    for _, board in groupby(every, key=attrgetter("board")):
        some = list(board)
        listed += some[:number] if some[0].gpu else some[:1]
    return listed


def _standing(
    run: str, tag: str, found: Measurement, host: MeasurementHost, entry: MeasuredEntry
) -> RankedVariant:
    return RankedVariant(
        milestone=found.milestone,
        accuracy=found.accuracy,
        gpu=found.gpu.name if found.gpu else "",
        engine=host.engine,
        variant=entry.variant,
        ms=entry.ms,
        ratio=entry.ratio,
        interval=entry.interval,
        run=run,
        tag=tag,
        commit=host.commit,
        at=host.at,
    )
