"""What the rounds of a run measured, summed up for each command that was repeated."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from runner.core import CommandRecord, Outcome, RunRecord

MOST_ROUNDS = 1000
"""Of one run. Each round of each command has an entry in the record."""

MOST_SECONDS = 1e12
"""A program that prints a longer time has none, and sums of times stay finite."""


class Spread(Struct, frozen=True):
    """How many values there are, their median, the smallest and the largest."""

    n: int
    median: float
    smallest: float
    largest: float


class CommandSamples(Struct, frozen=True):
    """A command that was repeated, and what its rounds took in seconds.

    ``number`` is its place in the build file, from 1. ``op_time_s`` sums the op times
    that it printed in a round; it is None if it printed none.
    """

    number: int
    name: str | None
    text: str
    wall_s: Spread
    op_time_s: Spread | None = None


def samples(run: RunRecord) -> tuple[CommandSamples, ...]:
    """Return the samples of each command that was repeated; of rounds that ended well.

    A command that has fewer than two of them is left out.
    """
    repeats: dict[int, list[CommandRecord]] = {}
    for one in run.commands:
        if one.repeats is not None and one.outcome is Outcome.OK:
            repeats.setdefault(one.repeats, []).append(one)
    return tuple(
        _sampled(first, [first, *repeats[first.index]])
        for first in run.first_round
        if first.index in repeats and first.outcome is Outcome.OK
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Return how values spread; None if there are none."""
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    median = ordered[half] / 2 + ordered[~half] / 2
    return Spread(len(ordered), median, ordered[0], ordered[-1])


def _sampled(first: CommandRecord, rounds: Sequence[CommandRecord]) -> CommandSamples:
    walls = spread([one.wall_s or 0.0 for one in rounds])
    assert walls is not None
    printed = [i for one in rounds if (i := _op_time_s(one)) is not None]
    return CommandSamples(
        first.index + 1, first.name, first.text, walls, spread(printed)
    )


def _op_time_s(command: CommandRecord) -> float | None:
    times = [t for one in command.findings.inferences for t in one.op_times_s]
    plain = times and min(times) >= 0 and max(times) < MOST_SECONDS
    return sum(times) if plain else None
