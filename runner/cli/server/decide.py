"""`rai server decide`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal.streams import say
from runner.wire.submissions import Decision


def decide(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="A submission.")],
    what: Annotated[
        Decision,
        typer.Argument(metavar="count|annul", help="Whether it counts from now on."),
    ],
    reason: opening.Reason = "",
    state: opening.State = None,
) -> None:
    """Have a submission count, or not, whatever its verdict is. Its team sees why."""
    why = opening.reason(reason)
    with opening.opened(state) as (_, store):
        one = store.submission(number)
        if one is None:
            hint = "`rai submissions --all` lists them"
            raise UsageError(Problem(f"there is no submission {number}", hint=hint))
        if one.ended_at is None or one.rerun_of is not None:
            text = f"submission {number} has no verdict of its own"
            raise UsageError(text)
        store.decide(number, what, why)
        opening.note(store, "decide", f"submission {number} {what}: {why}")
    says = "counts" if what is Decision.COUNT else "does not count"
    say(f"Submission {number} of {one.team} to {one.milestone} {says}: {why}")
