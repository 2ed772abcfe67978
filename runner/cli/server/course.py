"""What staff do with submissions: `rai server extend`, `decide`, `rerun` and more."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Annotated

import typer

from runner.cli.server import opening
from runner.core import Problem
from runner.core.errors import UsageError
from runner.core.wire import Decision
from runner.terminal.streams import say

MOST_TIMES = 20
Milestone = Annotated[str, typer.Argument(metavar="MILESTONE", help="Of what.")]


def extend(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Whose deadline.")],
    milestone: Milestone,
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
    with opening.opened(state) as (folder, store):
        grading, why = opening.grading(folder, store), opening.reason(reason)
        moved = grading.extend(team, milestone, by, why)
        opening.note(store, "extend", f"{team} {moved.name} {by}: {why}")
    own = by == "0s"
    as_others = "as for all" if own else f"{by} after the milestone's own deadline"
    due = f"{moved.name} is due {moved.deadline:%Y-%m-%d %H:%M %Z}"
    say(f"{due} for {team}: {as_others}")


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
    with opening.opened(state) as (folder, store):
        one = opening.grading(folder, store).decide(number, what, why)
        opening.note(store, "decide", f"submission {number} {what}: {why}")
    says = "counts" if what is Decision.COUNT else "does not count"
    say(f"Submission {number} of {one.team} to {one.milestone} {says}: {why}")


def rerun(
    milestone: Milestone,
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


def export(
    milestone: Milestone,
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that is made.")
    ],
    state: opening.State = None,
) -> None:
    """Write grades.csv, and a folder for each team with what it submitted.

    A folder has the sources, the report, the output and measurement.json of the
    submission that counts: for MOSS, JPlag or eyes.
    """
    from runner.server import grading as grades

    with opening.opened(state) as (folder, store):
        grading = opening.grading(folder, store)
        found = grading.milestone(milestone)
        try:
            directory.mkdir(mode=0o700)
        except OSError as error:
            text = f"{directory} cannot be made: {error.strerror}"
            raise UsageError(text) from error
        teams, problems = grades.export(grading, store, folder, found, directory)
        opening.note(store, "export", f"{found.name} {grading.term} to {directory}")
    for problem in problems:
        say(f"warning: {problem}")
    of = f"{teams} team{'s'[: teams != 1]}"
    say(f"Wrote {directory / grades.FILE} and the submissions of {of}")


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
