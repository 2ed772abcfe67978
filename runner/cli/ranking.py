"""`rai ranking [MILESTONE]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import common, remotely
from runner.client.problems import shown
from runner.client.profile import ProfileEntry
from runner.core.addresses import SlurmTarget
from runner.core.milestone import TIMED_BY, Trust
from runner.core.wire import StandingsPage
from runner.execution import prepare
from runner.report.blocks import Table, filled
from runner.report.findings import timed
from runner.report.phrases import date, late_text
from runner.spec import milestones
from runner.store import run_files, runs
from runner.terminal.layout import blocks
from runner.terminal.streams import say

if TYPE_CHECKING:
    from runner.submit.standings import RankedVariant

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
    on: common.On = None,
    as_json: common.JsonFlag = False,
) -> None:
    """List accepted submissions, best first.

    At a server they are all teams', else your own on this machine. There is a list for
    each milestone, accuracy class, GPU model and engine, since times compare only
    within these. Teams that cannot be told apart share a rank, and others have names
    that the server gives them. `rai prune` keeps the runs that are listed.
    """
    from runner.submit.standings import standings

    to = remotely.destination(on, prepare.Options())
    if to is not None and not isinstance(to, SlurmTarget):
        _at_server(to, milestone, number, as_json=as_json)
        return
    known = None
    if milestone is not None:
        known = milestones.find(milestone, common.settings().milestones)
    found = standings(
        (
            (paths.id, run_files.read_tag(paths), measurement)
            for paths, measurement in runs.measurements(common.home())
        ),
        known.name if known else None,
        number,
    )
    if as_json:
        common.print_json(found)
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
    from runner.client.api import ServerClient

    with ServerClient(entry) as client:
        names = [milestone]
        if milestone is None:
            names = [one.name for one in client.milestones().milestones]
        pages = [client.standings(name) for name in names if name is not None]
    tables = [table for page in pages for table in _boards(page, number)]
    if as_json:
        common.print_json([page for page in pages if page.boards])
    elif tables:
        blocks(list(tables))
    elif milestone and not pages[0].trust.ranks:
        name = shown(pages[0].milestone)
        say(f"{name} has no ranking: no time of it counts. See rai submissions {name}")
    else:
        to = f" to {shown(pages[0].milestone)}" if milestone else ""
        say(f"No submission{to} with a time counts yet; `rai submit` makes one.")


def _boards(page: StandingsPage, number: int | None) -> Iterator[Table]:
    for board in page.boards:
        rows = []
        for place, one in enumerate(board.standings):
            if number is not None and place >= number and not one.own:
                continue
            row = (
                *(str(one.rank), shown(one.name)),
                *timed(one.ms, one.ratio, one.interval),
                date(one.received_at)[:10],
                f"{late_text(one.late_s)} late" if one.late_s else "",
                f"measured again {one.reruns} time{'s'[: one.reruns != 1]}"
                if one.reruns
                else "",
                "you" if one.own else "",
            )
            rows.append(row)
        about = page.milestone, board.accuracy, board.gpu, board.engine
        heads = ("rank", "team", *_TIMES, "day", "", "", "")
        title = _title(map(shown, about), page.trust)
        yield filled(title, heads, rows, right=("rank", *_TIMES))


def _tables(found: list[RankedVariant]) -> Iterator[Table]:
    for board, some in groupby(found, key=attrgetter("board")):
        every = list(some)
        rows = [
            (
                *timed(one.ms, one.ratio, one.interval),
                *(one.variant, date(one.at), one.run, one.commit[:10], one.tag),
            )
            for one in every
        ]
        title, keep = _title(board, every[0].trust), _HEADS[len(_TIMES) :]
        yield filled(title, _HEADS, rows, right=_TIMES, keep=keep)


def _title(board: Iterable[str], trust: str) -> str:
    """Return a board's title, which says if it is of times of the staff's harness."""
    title = ", ".join(filter(None, board))
    return f"{title}: {TIMED_BY}" if trust == Trust.TIMED else title
