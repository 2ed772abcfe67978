"""What the rounds of a run measured, as a table and as lines."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import RunRecord
from runner.core.quantities import brief
from runner.core.samples import CommandSamples, Spread, samples
from runner.figures.commands import main_part
from runner.report.blocks import Table
from runner.report.words import seconds, titled


def sampled(record: RunRecord) -> list[Table]:
    """Return a table of the commands that were repeated; none if there are none."""
    rows = tuple(
        (str(one.number), titled(one.name, one.text), figure, str(found.n), *times)
        for one in samples(record)
        for figure, found, times in _figures(one)
    )
    heads = ("#", "command", "figure", "rounds", "median", "smallest", "largest")
    return [Table("Samples", heads, rows, frozenset({0, 3, 4, 5, 6}))] if rows else []


def sampled_lines(record: RunRecord) -> list[str]:
    """Return a line for each command that was repeated."""
    lines = []
    for one in samples(record):
        told = []
        for figure, found, (median, smallest, largest) in _figures(one):
            value, _, unit = smallest.partition(" ")
            if " " not in unit and largest.partition(" ")[2] == unit:
                smallest = value  # the unit once
            few = f"; printed in {found.n} only" if found.n != one.wall_s.n else ""
            told.append(f"{figure} {median} ({smallest} to {largest}{few})")
        name = one.name or main_part(one.text)
        which = f"Command {one.number} ({name}), median of {one.wall_s.n} rounds"
        lines.append(f"{which}: {', '.join(told)}.")
    return lines


def _figures(one: CommandSamples) -> Iterator[tuple[str, Spread, list[str]]]:
    """Yield each figure with its median, its smallest and its largest value."""
    if found := one.op_time_s:
        times = (found.median, found.smallest, found.largest)
        yield "op time", found, list(map(brief, times))
    found = one.wall_s
    times = (found.median, found.smallest, found.largest)
    yield "wall", found, list(map(seconds, times))
