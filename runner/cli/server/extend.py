"""`rai server extend`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.quantities import TIME
from runner.terminal.streams import say


def extend(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Whose deadline.")],
    milestone: Annotated[str, typer.Argument(metavar="MILESTONE", help="Of what.")],
    by: Annotated[
        str,
        typer.Argument(metavar="DURATION", help="2d: after the milestone's own; 0s."),
    ],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why: the audit log keeps it.")
    ] = "",
    state: opening.State = None,
) -> None:
    """Move a team's deadline of a milestone. It replaces what was given before.

    What it submitted before is late by the new deadline.
    """
    from runner.server.grading import later

    seconds = TIME.parse(by) if by != "0s" else 0.0
    if seconds is None:
        text = f"{by!r} is no duration"
        raise UsageError(Problem(text, hint="write e.g. 2d, 12h or 0s"))
    with opening.opened(state) as (folder, store):
        grading = opening.grading(folder, store)
        found = grading.milestone(milestone)
        if found.deadline is None:
            raise UsageError(f"{found.name} has no deadline")
        if not any(person.team == team for person in store.people()):
            text = f"there is no team {team!r}"
            raise UsageError(Problem(text, hint="`rai server people` lists them"))
        why, moved = opening.reason(reason), later(found, seconds)
        store.extend(team, found.name, grading.term, seconds, why, moved.late_s_at)
        opening.note(store, "extend", f"{team} {found.name} {by}: {why}")
    due = moved.deadline
    as_others = f"{by} after the milestone's own deadline" if seconds else "as for all"
    say(f"{found.name} is due {due:%Y-%m-%d %H:%M %Z} for {team}: {as_others}")
