"""What the rounds of a run measured, as a table and as lines."""

from __future__ import annotations

from runner.core import RunRecord
from runner.core.samples import CommandSamples, Spread, samples
from runner.figures.commands import main_part
from runner.report.blocks import Table
from runner.report.words import seconds, titled


def sampled(record: RunRecord) -> list[Table]:
    """Return a table of the commands that were repeated; none if there are none."""
    rows = tuple(
        (str(one.number), titled(one.name, one.text), figure, *cells)
        for one in samples(record)
        for figure, cells in _rows(one)
    )
    heads = ("#", "command", "figure", "rounds", "median", "smallest", "largest")
    numbers = frozenset({0, 3, 4, 5, 6})
    return [Table("Samples", heads, rows, numbers)] if rows else []


def sampled_lines(record: RunRecord) -> list[str]:
    """Return a line for each command that was repeated."""
    lines = []
    for one in samples(record):
        figures = [
            f"{figure} {median} ({_range(smallest, largest)}{_only(n, one)})"
            for figure, (n, median, smallest, largest) in _rows(one)
        ]
        name = one.name or main_part(one.text)
        which = f"Command {one.number} ({name}), median of {one.wall_s.n} rounds"
        lines.append(f"{which}: {', '.join(figures)}.")
    return lines


def _only(rounds: str, one: CommandSamples) -> str:
    """Return in how many rounds a figure was printed, "" if in all of them."""
    return "" if rounds == str(one.wall_s.n) else f"; printed in {rounds} only"


def _range(smallest: str, largest: str) -> str:
    """Join two times, with their unit once if both are in seconds."""
    plain = all(
        text.count(" ") == 1 and text.endswith(" s") for text in (smallest, largest)
    )
    return f"{smallest.removesuffix(' s') if plain else smallest} to {largest}"


def _rows(one: CommandSamples) -> list[tuple[str, tuple[str, str, str, str]]]:
    rows = [("wall", _cells(one.wall_s, "wall"))]
    if one.op_time_s:
        rows.insert(0, ("op time", _cells(one.op_time_s, "op time")))
    return rows


def _cells(found: Spread, figure: str) -> tuple[str, str, str, str]:
    values = (found.median, found.smallest, found.largest)
    median, smallest, largest = (
        f"{value:.6f} s" if figure == "op time" else seconds(value) for value in values
    )
    return str(found.n), median, smallest, largest
