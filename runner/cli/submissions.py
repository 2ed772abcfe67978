"""`rai submissions [MILESTONE]`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import common, submitting
from runner.client.problems import shown
from runner.core.milestone import TIMED_BY, Trust
from runner.report.blocks import filled
from runner.report.findings import timed
from runner.report.phrases import late_text
from runner.submit.outcome import verdict
from runner.terminal.layout import blocks
from runner.terminal.streams import say


def submissions(
    milestone: Annotated[
        str | None,
        typer.Argument(metavar="MILESTONE", help="List those to this one only."),
    ] = None,
    choose: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=1, help="Have this one count."),
    ] = None,
    on: common.On = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Every team's, for staff.")
    ] = False,
    as_json: common.JsonFlag = False,
) -> None:
    """List your team's submissions at the server, newest first.

    Each has its last run, for `rai show`, and the one that counts is marked. A team
    chooses it by --choose, until the deadline, where the milestone says so.
    """
    from runner.client.api import ServerClient

    with ServerClient(common.server(on)) as client:
        if choose is not None:
            one = client.choose(choose)
            text = f"{submitting.titled(one)} to {shown(one.milestone)}"
            decided = "is chosen, but staff decided which one counts"
            say(f"{text} {'counts now' if one.counts else decided}.")
            return
        page = client.submissions(milestone or "", everyone=everyone)
    found = page.submissions
    if as_json:
        common.print_json(found)
        return
    rows = []
    for one in found:
        late = late_text(one.late_s)
        again = one.rerun_of is not None
        attempt = "" if one.rehearsal or again else str(one.attempt)
        mark = "rehearsal" if one.rehearsal else "counts" if one.counts else ""
        mark = f"measures {one.rerun_of} again" if again else mark
        points = "" if one.points is None else f"{one.points:g}"
        marks = "; ".join((*filter(None, [mark]), *map(shown, one.marks)))
        last = points, marks
        first = (
            *(str(one.number), shown(one.milestone), shown(one.team)),
            *(shown(one.person), submitting.moment(one.received_at)),
            *(f"{late} late" if late else "", attempt, shown(verdict(one))),
            one.runs[-1].run if one.runs else "",
        )
        entries = one.measured.entries if one.measured else ()
        figures = [
            timed(e.ms, e.ratio, e.interval) for e in entries if e.ms is not None
        ]
        rows += [(*first, *some, *last) for some in figures or [("", "", "")]]
    if not rows:
        to = f" to {milestone}" if milestone else ""
        say(f"No submission{to} yet; `rai submit` lists the milestones.")
        return
    if not everyone:
        rows = [(*row[:2], "", *row[3:]) for row in rows]
    heads = ("number", "milestone", "team", "person", "received", "", "attempt")
    more = ("verdict", "run", "time", "ratio", "95 % interval", "points", "")
    blocks([filled("", (*heads, *more), rows)])
    by_staff = {shown(one.milestone) for one in found if one.trust is Trust.TIMED}
    if by_staff:
        say()
        say(f"Times of {', '.join(sorted(by_staff))}: {TIMED_BY}")
