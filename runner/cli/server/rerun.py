"""`rai server rerun`."""

from __future__ import annotations

import random
import time
from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core.errors import UsageError
from runner.terminal.streams import say

MOST_TIMES = 20


def rerun(
    milestone: Annotated[
        str, typer.Argument(metavar="MILESTONE", help="What is measured again.")
    ],
    times: Annotated[
        int, typer.Option(min=1, max=MOST_TIMES, help="How often each is.")
    ] = 4,
    state: opening.State = None,
) -> None:
    """Measure again the submission that counts of each team: the final order.

    Each round is of all teams, in an order of its own, with fresh seeds. The boards
    show the medians of all that was measured again; the old verdicts stay.
    """
    with opening.opened(state) as (folder, store):
        grading = opening.grading(folder, store)
        found = grading.milestone(milestone)
        if not found.trust.ranks:
            raise UsageError(f"{found.name} has no order: its times do not count")
        counting = grading.counting(found)
        if not counting:
            raise UsageError(f"no submission to {found.name} counts")
        order = []
        for _ in range(times):
            order += random.sample(counting, len(counting))
        made = store.add_reruns(order, time.time())
        teams = f"{len(counting)} team{'s'[: len(counting) != 1]}"
        opening.note(store, "rerun", f"{found.name}: {teams}, {times} times each")
    say(f"{len(made)} measurements of {teams} are queued. What comes of them:")
    say(f"rai submissions {found.name} --all; rai ranking {found.name}")
