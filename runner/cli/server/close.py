"""`rai server close`."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.terminal.streams import say


def close(
    term: Annotated[str, typer.Argument(metavar="TERM", help="Such as 2026fa.")],
    state: opening.State = None,
) -> None:
    """Let a term's submissions go: their bytes and runs are then removed as others are.

    Every milestone of it is to be exported first, while it is the term of server.yml.
    Verdicts and boards stay.
    """
    with opening.opened(state) as (_, store):
        found = store.milestones_of(term)
        if not found:
            raise UsageError(f"no submission of the term {term} is kept")
        missing = [
            Problem(f"{name} was not exported since its last verdict", hint=hint)
            for name, at in found.items()
            if store.last_act("export", f"{name} {term} to ") <= at
            for hint in [f"rai server export {name} DIR, with that term in server.yml"]
        ]
        if missing:
            raise UsageError(*missing)
        closed = store.close_term(term)
        opening.note(store, "close", f"{term}: {closed} submissions")
    say(f"{closed} submissions of {term} are no longer kept for good")
