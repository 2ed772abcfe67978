"""`rai ranking [MILESTONE]`."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common
from runner.terminal.streams import say
from runner.wire.addresses import SlurmTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.remote.profile import ProfileEntry
    from runner.report import Table
    from runner.submission.standings import RankedVariant
    from runner.wire.submissions import StandingsPage

_TIMES = ("time", "ratio", "95 % interval")
_RIGHT = ("rank", *_TIMES)
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
    on: common.On = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List accepted submissions, best first.

    At a server they are all teams', else your own on this machine. There is a list for
    each milestone, accuracy class, GPU model and engine, since times compare only
    within these. Teams that cannot be told apart share a rank, and others have names
    that the server gives them. `rai prune` keeps the runs that are listed.
    """
    from runner import milestones, session
    from runner.cli import remotely
    from runner.core import record
    from runner.core.milestone import Trust
    from runner.store import measurements, tags
    from runner.submission.standings import standings
    from runner.terminal.layout import blocks

    to = remotely.destination(on, session.Options())
    if to is not None and not isinstance(to, SlurmTarget):
        _at_server(to, milestone, number, as_json=as_json)
        return
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
        of = f" to {known.name}" if known else ""
        say(f"No accepted submission{of} on this machine; `rai submit` makes one.")


def _at_server(
    entry: ProfileEntry, milestone: str | None, number: int | None, *, as_json: bool
) -> None:
    """List the boards of a milestone of a server, or of all."""
    from runner.core import record
    from runner.remote.api import ServerClient
    from runner.remote.problems import shown
    from runner.terminal.layout import blocks

    with ServerClient(entry) as client:
        names = [milestone]
        if milestone is None:
            names = [one.name for one in client.milestones().milestones]
        pages = [client.standings(name) for name in names if name is not None]
    tables = [table for page in pages for table in _boards(page, number)]
    if as_json:
        common.print_json([record.plain(page) for page in pages if page.boards])
    elif tables:
        blocks(list(tables))
    elif milestone is not None and pages and not pages[0].trust.ranks:
        name = shown(pages[0].milestone)
        say(f"{name} has no ranking: no time counts; see rai submissions {name}")
    else:
        to = f" to {shown(pages[0].milestone)}" if milestone and pages else ""
        say(f"No submission{to} is ranked yet; `rai submit` makes one.")


def _boards(page: StandingsPage, number: int | None) -> Iterator[Table]:
    from runner.cli import submitting
    from runner.core.milestone import TIMED_BY, Trust
    from runner.core.quantities import brief
    from runner.remote.problems import shown
    from runner.report import Table, date

    for board in page.boards:
        rows = []
        for place, one in enumerate(board.standings):
            if number is not None and place >= number and not one.own:
                continue
            low, high = one.interval or (0.0, 0.0)
            row = (
                str(one.rank),
                shown(one.name),
                brief(None if one.ms is None else one.ms / 1000),
                f"{one.ratio:.4f}" if one.ratio is not None else "",
                f"{low:.4f} to {high:.4f}" if one.interval else "",
                date(one.received_at)[:10],
                f"{submitting.late_text(one.late_s)} late" if one.late_s else "",
                f"measured again {one.reruns} time{'s'[: one.reruns != 1]}"
                if one.reruns
                else "",
                "you" if one.own else "",
            )
            rows.append(row)
        about = page.milestone, board.accuracy, board.gpu, board.engine
        heads = ("rank", "team", *_TIMES, "day", "", "", "")
        table = submitting.without_empty(heads, rows)
        right = frozenset(at for at, head in enumerate(table.heads) if head in _RIGHT)
        title = ", ".join(map(shown, filter(None, about)))
        if page.trust is Trust.TIMED:
            title += f": {TIMED_BY}"
        yield Table(title, table.heads, table.rows, right)


def _tables(found: list[RankedVariant]) -> Iterator[Table]:
    from runner.core.milestone import TIMED_BY, Trust
    from runner.core.quantities import brief
    from runner.report import blocks, date

    for board, some in groupby(found, key=attrgetter("board")):
        rows = []
        every = list(some)
        for one in every:
            low, high = one.interval or (0.0, 0.0)
            row = (
                brief(None if one.ms is None else one.ms / 1000),
                f"{one.ratio:.4f}" if one.ratio is not None else "",
                f"{low:.4f} to {high:.4f}" if one.interval else "",
                one.variant,
                date(one.at),
                one.run,
                one.commit[:10],
                one.tag,
            )
            rows.append(row)
        title = ", ".join(filter(None, board))
        if every[0].trust == Trust.TIMED:
            title += f": {TIMED_BY}"
        keep = _HEADS[len(_TIMES) :]
        yield blocks.filled(title, _HEADS, rows, right=_TIMES, keep=keep)
