"""Profilers' tables, reduced to the rows with most of the time, and their files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from runner.core import ProfileFile, ProfileRow, ProfileTable, RunRecord, Source
from runner.report.blocks import Table
from runner.report.words import brief, one_line, size

_READERS = {"nvprof": "nvprof -i", "nsys": "nsys stats"}

MOST = 90.0
"""The shown rows together take more than this share of the time, in percent."""


def files(record: RunRecord) -> list[Table]:
    """Return the files that profilers wrote, with the command that reads each."""
    rows = tuple(
        (str(c.index + 1), file.path, size(file.size_bytes), _reader(record.id, file))
        for c in record.commands
        for file in c.profile_files
    )
    heads = ("#", "file", "size", f"after `rai pull {record.id}`")
    return [Table("Profiles", heads, rows, frozenset({0, 2}))] if rows else []


def _reader(run_id: str, file: ProfileFile) -> str:
    ncu = file.tool == "ncu" or file.path.endswith(".ncu-rep")
    program = "ncu -i" if ncu else _READERS.get(file.tool, file.tool)
    return f"{program} {shlex.quote(f'build-{run_id}/{file.path}')}"


def profile(table: ProfileTable) -> Table:
    """Return the rows that take most of the time, with a running sum, and the rest.

    The rest is summed up in one row; a single row is shown as it is.
    """
    ordered = sorted(table.rows, key=lambda row: -row.percent)
    count = until([row.percent for row in ordered])
    if len(ordered) - count == 1:
        count += 1
    shown, rest = ordered[:count], ordered[count:]
    rows, reached = [], 0.0
    for row in shown:
        reached += row.percent
        rows.append(_cells(row, reached))
    if rest:
        rows.append(_cells(summed(rest), reached + sum(r.percent for r in rest)))
    heads = ("time", "sum", "total", "calls", "average", "name")
    return Table(
        f"{table.tool}: {table.section}{_whose(table.source)}",
        heads,
        tuple(rows),
        frozenset(range(5)),
        names=frozenset({5}),
    )


def _whose(source: Source) -> str:
    """Return what a table is of, for its title."""
    about = [f"variant {source.variant}"] if source.variant else []
    about += [f"batch {source.batch_size}"] if source.batch_size is not None else []
    more = f" ({', '.join(about)})" if about else ""
    if source.number is None:
        return more
    return f" of command {source.number}, `{one_line(source.command)}`{more}"


def until(percents: Sequence[float]) -> int:
    """Return how many shares, the largest first, together pass what is shown."""
    reached = 0.0
    for count, percent in enumerate(percents, 1):
        reached += percent
        # Rounding keeps a sum of printed percentages that is 90 from exceeding 90.
        if round(reached, 9) > MOST:
            return count
    return len(percents)


def summed(rest: Sequence[ProfileRow]) -> ProfileRow:
    """Return one row for those that are not shown."""
    return ProfileRow(
        f"and {len(rest)} more",
        sum(row.percent for row in rest),
        sum(row.total_s for row in rest),
        sum(row.calls for row in rest),
    )


def _cells(row: ProfileRow, reached: float) -> tuple[str, ...]:
    return (
        f"{row.percent:.2f}%",
        f"{min(reached, 100.0):.2f}%",
        brief(row.total_s),
        str(row.calls),
        brief(row.avg_s),
        row.name,
    )
