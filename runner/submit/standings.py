"""Which submission of a team counts, and the standings by their times. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from runner.core import Reason
from runner.core.measurement import MeasuredEntry, Measurement
from runner.core.milestone import Counted, Milestone, MilestoneRun, Trust
from runner.core.quantities import DAY_S
from runner.core.wire import (
    Leaderboard,
    MilestoneView,
    StageRun,
    Submission,
    TeamStanding,
)

REPEATED = frozenset((Reason.BUSY, Reason.RUNNER_LOST, Reason.GPU_ERROR, Reason.NO_GPU))
"""What a machine spoils for a while: heat, others on its GPU, a worker that is lost."""

MOST_REPEATS = 2
CHARGED = frozenset(
    (
        *(Reason.DONE, Reason.COMMAND_FAILED, Reason.GPU_FAULT, Reason.WRONG_ANSWER),
        *(Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.OUTPUT_LIMIT),
        *(Reason.DISK_LIMIT, Reason.PIDS_LIMIT, Reason.GPU_MEMORY),
        *(Reason.USAGE, Reason.CANCELLED),
    )
)
"""The ends that use an attempt: those that are the team's own doing."""


def view(
    one: Milestone, now: float, used: int = 0, last: Submission | None = None
) -> MilestoneView:
    """Return a milestone as it is listed, with what a team did for it."""
    due = one.deadline.timestamp() if one.deadline else None
    return MilestoneView(
        one.name, one.title, one.trust, due, one.closed(now), one.attempts, used, last
    )


def following(
    stages: Sequence[MilestoneRun], runs: Sequence[StageRun]
) -> MilestoneRun | None:
    """Return the run that follows those that have ended; None if none does."""
    if not runs:
        return stages[0]
    last = runs[-1]
    place = next(n for n, stage in enumerate(stages) if stage.name == last.name)
    if last.reason is Reason.DONE:
        return stages[place + 1] if place + 1 < len(stages) else None
    spoiled = [one for one in runs if one.reason in REPEATED]
    repeats = last.reason in REPEATED and len(spoiled) <= MOST_REPEATS
    return stages[place] if repeats else None


def latest(runs: Iterable[StageRun]) -> dict[str, str]:
    """Return the ids of runs by what they did; of repeated ones the last."""
    return {one.name: one.run for one in runs}


def counting(some: Iterable[Submission], how: Counted) -> int | None:
    """Return the number of the one that counts of a team's for one milestone."""
    able = sorted((one for one in some if one.may_count), key=lambda one: one.number)
    if not able:
        return None
    if decided := [one for one in able if one.decided is not None]:
        return decided[-1].number
    if how is Counted.CHOSEN and (chosen := [one for one in able if one.chosen]):
        return chosen[-1].number
    timed = [(one.measured.score, one.number) for one in able if one.measured]
    ranked = [(score, number) for score, number in timed if score is not None]
    if how is Counted.BEST and ranked:
        return min(ranked)[1]
    return able[-1].number


class RankedVariant(Struct, frozen=True, rename={"accuracy": "class"}):
    """One variant of an accepted submission; times in milliseconds.

    ``gpu`` is "" where there was none, the times are None where only the result was
    checked, and the ratio where a harness timed it. ``run`` is the id of the run that
    measured it, ``at`` when that began, in seconds since 1970; ``trust`` as Trust.
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
    trust: str = ""

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
        RankedVariant(
            milestone=one.milestone,
            accuracy=one.accuracy,
            gpu=one.gpu.name if one.gpu else "",
            engine=host.engine,
            variant=entry.variant,
            ms=entry.ms,
            ratio=entry.ratio,
            interval=entry.interval,
            run=run,
            tag=tag,
            commit=host.commit,
            at=host.at,
            trust=host.trust,
        )
        for run, tag, one in found
        if milestone in (None, one.milestone.lower())
        if one.counts and (host := one.host) is not None
        for entry in one.entries
    ]
    every.sort(
        key=lambda one: (one.board, one.ratio or one.ms or 0.0, -one.at, one.run)
    )
    listed: list[RankedVariant] = []
    for _, board in groupby(every, key=attrgetter("board")):
        some = list(board)
        timed = some[0].gpu or some[0].trust == Trust.TIMED
        listed += some[:number] if timed else some[:1]
    return listed


def leaderboards(
    counting: Iterable[Submission],
    reruns: Iterable[Submission],
    names: Mapping[str, str],
    asking: str,
    *,
    staff: bool = False,
) -> tuple[Leaderboard, ...]:
    """Return the leaderboards of a milestone, with what counts of each team.

    ``reruns`` measured some of them again. ``names`` are what teams are called where
    others look; the ``asking`` team and ``staff`` see teams' own.
    """
    again: dict[int, list[Submission]] = {}
    for one in reruns:
        again.setdefault(one.rerun_of or 0, []).append(one)
    found: dict[tuple[str, str, str], list[TeamStanding]] = {}
    for one in counting:
        first, measured = best(one), one.measured
        if first is None or measured is None:
            continue
        later = [fresh for r in again.get(one.number, ()) if (fresh := best(r))]
        ms, ratio, interval = first.ms, first.ratio, first.interval
        if later:
            ms, ratio, interval = _together(later)
        own = one.team == asking
        place = TeamStanding(
            rank=0,
            name=one.team if own or staff else names.get(one.team, "a team"),
            own=own,
            variant=first.variant,
            ms=ms,
            ratio=ratio,
            interval=interval,
            late_s=one.late_s,
            received_at=one.received_at,
            number=one.number,
            reruns=len(later),
        )
        place = place if own or staff else _unnamed(place)
        gpu, host = measured.gpu, measured.host
        board = (
            measured.accuracy,
            gpu.name if gpu else "",
            host.engine if host else "",
        )
        found.setdefault(board, []).append(place)
    return tuple(
        Leaderboard(*board, _ranked(some)) for board, some in sorted(found.items())
    )


def _unnamed(place: TeamStanding) -> TeamStanding:
    """Return a place without what tells whose it is: a moment, a number, a name.

    Of the times the days are left.
    """
    noon = place.received_at // DAY_S * DAY_S + DAY_S / 2
    late_s = math.ceil(place.late_s / DAY_S) * DAY_S
    return replace(place, variant="", late_s=late_s, received_at=noon, number=0)


def best(one: Submission) -> MeasuredEntry | None:
    """Return the fastest entry of a submission that was timed; None without one."""
    return one.measured.best if one.measured else None


def _together(
    again: Sequence[MeasuredEntry],
) -> tuple[float, float | None, tuple[float, float] | None]:
    """Return the medians of what was measured again, and the range of the ratios."""
    ms = statistics.median(one.ms for one in again if one.ms is not None)
    ratios = [one.ratio for one in again if one.ratio is not None]
    if not ratios:
        return ms, None, None
    return ms, statistics.median(ratios), (min(ratios), max(ratios))


def _ranked(some: Iterable[TeamStanding]) -> tuple[TeamStanding, ...]:
    """Return standings with their ranks, the best first.

    A rank is one more than there are others whose intervals lie wholly below one's own,
    so who cannot be told apart shares one. Without an interval the time decides.
    """

    def span(one: TeamStanding) -> tuple[float, float]:
        return one.interval or (one.ms or 0.0, one.ms or 0.0)

    every = list(some)
    sides = [span(one) for one in every]
    ranked = [
        replace(one, rank=1 + sum(high < low for _, high in sides))
        for one, (low, _) in zip(every, sides, strict=True)
    ]
    ranked.sort(key=lambda one: (one.rank, one.ratio or one.ms or 0.0, one.name))
    return tuple(ranked)
