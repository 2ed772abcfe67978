"""What became faster, slower, right or wrong since an earlier run, in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.core import CommandRecord, Outcome, RunRecord
from runner.figures.commands import one_line
from runner.figures.table import NetworkFigures
from runner.report.pairs import Pair, alike, identity, networks, paired
from runner.report.words import seconds

NOISE, LEAST_WALL_S = 0.05, 0.25
"""Smaller differences, as a share of the time, and of a command in all, are noise."""

LEAST_FACTOR = 1.5
"""From here on a change is a factor: percentages of speed and of time are mistaken."""

MOST = 3
LONGEST = 24


class Series:
    """Runs of a project one after another, each compared with those before it."""

    def __init__(self) -> None:
        self._latest: RunRecord | None = None
        self._good: RunRecord | None = None

    def add(self, run: RunRecord) -> list[str]:
        """Return a line that compares the run with the latest.

        If that failed and this one did not, a second line compares it with the latest
        that did not: a run that failed has no times to compare.
        """
        ran = run.verdict is not None and run.verdict.ran
        earlier = [self._latest]
        if ran and self._good is not self._latest:
            earlier.append(self._good)
        self._latest = run
        self._good = run if ran else self._good
        return [versus(one, run) for one in earlier if one is not None]


def versus(before: RunRecord, after: RunRecord) -> str:
    """Return the line; commands are the same if their names or texts are."""
    matched = paired(before.first_round, after.first_round, identity)
    pairs = [(one, other) for one, other in matched if one and other]
    printed = (networks(before, layers=False), networks(after, layers=False))
    compared = [(*pair, alike(pair, *printed)) for pair in pairs]
    told = [text for each in compared for text in _results(*each)]
    timings = [timing for each in compared for timing in _timings(*each)]
    notable = sorted(timing for timing in timings if timing[0] <= -NOISE)
    told += [text for _, text in notable[:MOST]]
    if len(notable) > MOST:
        told.append(f"and {len(notable) - MOST} other times")
    if not told and timings:
        told = [f"no time changed by more than {100 * NOISE:.0f} %"]
    what = "; ".join(told) or "there is nothing to compare"
    return f"Since run {before.id}: {what}."


def _shown(command: CommandRecord) -> str:
    text = one_line(identity(command))
    return f"`{text}`" if len(text) <= LONGEST else f"command {command.index + 1}"


def _results(
    before: CommandRecord, after: CommandRecord, found: Sequence[Pair[NetworkFigures]]
) -> Iterator[str]:
    """Yield what became right or wrong."""
    states = before.outcome, after.outcome
    if states == (Outcome.OK, Outcome.FAILED):
        yield f"{_shown(after)} fails now"
    elif states == (Outcome.FAILED, Outcome.OK):
        yield f"{_shown(after)} works now"
    for one, other in found:
        if one and other and one.result != other.result:
            was = one.result.rpartition(" ")[2] or "none"
            yield f"{other.result or 'no correctness'} (was {was})"


def _timings(
    before: CommandRecord, after: CommandRecord, found: Sequence[Pair[NetworkFigures]]
) -> Iterator[tuple[float, str]]:
    """Yield the times that both have, of commands that succeeded, as ``_timing``."""
    if (before.outcome, after.outcome) != (Outcome.OK, Outcome.OK):
        return
    for number, (one, other) in enumerate(found, 1):
        which = f" {number}" if len(found) > 1 else ""
        if one and other and one.op_time_s and other.op_time_s:
            times = one.op_time_s.median, other.op_time_s.median
            if all(times):
                yield _timing(f"op time{which} of {_shown(after)}", *times)
    walls = before.wall_s or 0.0, after.wall_s or 0.0
    if all(walls):
        differ = abs(walls[1] - walls[0]) >= LEAST_WALL_S
        yield _timing(_shown(after), walls[0], walls[1] if differ else walls[0])


def _timing(what: str, before_s: float, after_s: float) -> tuple[float, str]:
    """Return minus the change, as a share of the longer time, and both times in words.

    A large change is a factor there, another a share of the time before.
    """
    ratio = after_s / before_s
    how = f"{100 * abs(ratio - 1):.0f} % {'more' if ratio > 1 else 'less'} time"
    if ratio >= LEAST_FACTOR:
        how = f"{ratio:.1f} times as long"
    elif 1 / ratio >= LEAST_FACTOR:
        how = f"{1 / ratio:.1f} times as fast"
    changed = abs(after_s - before_s) / max(after_s, before_s)
    return -changed, f"{what} {seconds(after_s)} (was {seconds(before_s)}, {how})"
