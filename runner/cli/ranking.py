"""`rai ranking [MILESTONE]`."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report import Table
    from runner.submission.standings import RankedVariant

_TIMES = ("time", "ratio", "95 % interval")
_HEADS = (*_TIMES, "variant", "when", "run", "commit", "tag")


def ranking(
    milestone: Annotated[
        str | None,
        typer.Argument(metavar="MILESTONE", help="List this one only."),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, help="List so many of each at most."),
    ] = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List your accepted submissions on this machine, best first.

    There is a list for each milestone, accuracy class, GPU model and engine, since
    times compare only within these. `rai prune` keeps the runs that are listed.
    """
    from runner import milestones
    from runner.core import record
    from runner.core.milestone import Trust
    from runner.store import measurements, tags
    from runner.submission.standings import standings
    from runner.terminal.layout import blocks

    known = None
    if milestone is not None:
        known = milestones.find(milestone, common.settings().milestones)
    found = standings(
        (
            (paths.id, tags.read(paths), measurement)
            for paths, measurement in measurements.every(common.home())
        ),
        known.name if known else None,
        number,
    )
    if as_json:
        common.print_json([record.plain(one) for one in found])
    elif found:
        blocks(list(_tables(found)))
    elif known is not None and known.trust is Trust.RECORDED:
        say(f"{known.name} has no ranking: its outcome is what your program printed.")
    else:
        to = f" to {known.name}" if known else ""
        say(f"No accepted submission{to} on this machine; `rai submit` makes one.")


def _tables(found: list[RankedVariant]) -> Iterator[Table]:
    from runner.core.quantities import brief
    from runner.report import Table, date

    for board, some in groupby(found, key=attrgetter("board")):
        rows = []
        for one in some:
            row: tuple[str, ...] = (
                one.variant,
                date(one.at),
                one.run,
                one.commit[:10],
                one.tag,
            )
            if one.ms is not None and one.ratio is not None and one.interval:
                low, high = one.interval
                time, interval = brief(one.ms / 1000), f"{low:.4f} to {high:.4f}"
                row = (time, f"{one.ratio:.4f}", interval, *row)
            rows.append(row)
        heads = _HEADS[-len(rows[0]) :]
        title = ", ".join(filter(None, board))
        yield Table(title, heads, tuple(rows), frozenset({0, 1, 2} if board[2] else ()))
