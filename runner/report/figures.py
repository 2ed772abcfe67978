"""The findings in a program's output as blocks: figures, profiles, faults of a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from runner.core import (
    Findings,
    ProfileFile,
    ProfileRow,
    ProfileTable,
    RunRecord,
    Source,
)
from runner.core.quantities import brief
from runner.figures import table
from runner.figures.commands import one_line
from runner.figures.table import Figure, FigureKind
from runner.report.blocks import Block, Pairs, Table, filled
from runner.report.words import size, spread

_READERS = {"nvprof": "nvprof -i", "nsys": "nsys stats"}

MOST = 90.0
"""The shown rows of a profile take together more than this share of the time."""


def figures(found: Findings) -> list[Block]:
    """Return all findings in a program's output: figures, and faults of a GPU."""
    sources = [one.source for one in found.inferences]
    sources += [one.source for one in found.time_usage]
    sources += [one.source for one in found.profiles]
    named = {source.number: source.command for source in sources}
    rows = sorted((n, command) for n, command in named.items() if n is not None)
    cells = [(str(number), command) for number, command in rows]
    blocks: list[Block] = []
    if cells:
        blocks.append(filled("Commands", ("#", "command"), cells, ("#",)))
    return [*blocks, *shown(found, table.of_findings(found))]


def shown(
    found: Findings, printed: Sequence[Figure], files: Sequence[Table] = ()
) -> list[Block]:
    """Return the tables of the figures, of profiles and their files, and of faults."""
    blocks = [*_networks(printed), *_times(printed)]
    if found.memory_errors:
        counts = [(str(errors),) for errors in found.memory_errors]
        blocks.append(filled("Memory checks", ("errors",), counts, ("errors",)))
    if missing := incomplete(found):
        blocks.append(Pairs((("incomplete", missing),)))
    faults = [(f.kind.words, f.line) for f in found.gpu_faults]
    blocks += [*map(profile, found.profiles), *files]
    if faults:
        blocks.append(filled("GPU faults", ("what", "as it was printed"), faults))
    return blocks


def incomplete(found: Findings) -> str:
    """Return what is not among the figures of an output; "" if they all are."""
    parts = []
    if found.unsearched:
        parts.append(f"{size(found.unsearched)} of the output were not searched")
    if found.left_out:
        parts.append(f"{found.left_out} figures are left out, as there are too many")
    return "; ".join(parts)


def _networks(printed: Sequence[Figure]) -> list[Block]:
    heads = ("#", "model", "variant", "images", "op times", "sum", "layer times")
    rows = [
        (
            str(one.number or ""),
            one.model,
            one.variant,
            str(one.images or ""),
            " + ".join(brief(time.median) for time in one.op_times_s),
            spread(one.op_time_s) if len(one.op_times_s) > 1 else "",
            " + ".join(brief(time.median) for time in one.layer_times_s),
            one.result,
            ", ".join(one.under),
        )
        for one in table.networks(printed)
    ]
    numbers = ("#", "images", *heads[4:])
    all_heads = (*heads, "result", "under")
    return [filled("Inferences", all_heads, rows, numbers)] if rows else []


def _times(printed: Sequence[Figure]) -> list[Block]:
    """Return what programs printed of their times, each time that one did."""
    rows: dict[tuple[int, int], dict[FigureKind, Figure]] = {}
    for one in printed:
        if one.figure in _PRINTED and one.round == 0:
            rows.setdefault((one.command, one.place), {})[one.figure] = one
    cells = [
        (
            str(number or ""),
            *(brief(of[kind].value) if kind in of else "" for kind in _PRINTED[:3]),
            size(of[_PRINTED[3]].value) if _PRINTED[3] in of else "",
        )
        for (number, _), of in rows.items()
    ]
    heads = ("#", "user", "system", "elapsed", "peak memory")
    return [filled("Time", heads, cells, heads)] if cells else []


_PRINTED = (
    *(FigureKind.USER, FigureKind.SYSTEM, FigureKind.ELAPSED),
    FigureKind.MEMORY,
)


def profile_files(record: RunRecord) -> list[Table]:
    """Return the files that profilers wrote, with the command that reads each."""
    rows = [
        (str(c.index + 1), file.path, size(file.size_bytes), _reader(record.id, file))
        for c in record.commands
        for file in c.profile_files
    ]
    heads = ("#", "file", "size", f"after `rai pull {record.id}`")
    return [filled("Profiles", heads, rows, ("#", "size"))] if rows else []


def _reader(run_id: str, file: ProfileFile) -> str:
    ncu = file.tool == "ncu" or file.path.endswith(".ncu-rep")
    program = "ncu -i" if ncu else _READERS.get(file.tool, file.tool)
    return f"{program} {shlex.quote(f'build-{run_id}/{file.path}')}"


def profile(found: ProfileTable) -> Table:
    """Return the rows that take most of the time, with a running sum, and the rest.

    The rest is summed up in one row; a single row is shown as it is.
    """
    ordered = sorted(found.rows, key=lambda row: -row.percent)
    count = until([row.percent for row in ordered])
    if len(ordered) - count == 1:
        count += 1
    rows, reached = [], 0.0
    rest = [summed(ordered[count:])] if ordered[count:] else []
    for row in (*ordered[:count], *rest):
        reached += row.percent
        times = (f"{row.percent:.2f} %", f"{min(reached, 100.0):.2f} %")
        cells = (brief(row.total_s), str(row.calls), brief(row.avg_s), row.name)
        rows.append((*times, *cells))
    heads = ("time", "sum", "total", "calls", "average", "name")
    title = f"{found.tool}: {found.section}{_whose(found.source)}"
    return Table(title, heads, tuple(rows), frozenset(range(5)), frozenset({5}))


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
