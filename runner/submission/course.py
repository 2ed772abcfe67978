"""What follows in the course of a submission at a server; which one counts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runner.core import Reason
from runner.core.milestone import Counted, Milestone, MilestoneRun
from runner.wire.submissions import MilestoneView, StageRun, Submission

REPEATED = frozenset((Reason.BUSY, Reason.RUNNER_LOST, Reason.GPU_ERROR, Reason.NO_GPU))
"""What a machine spoils for a while: heat, others on its GPU, a worker that is lost."""

MOST_REPEATS = 2
CHARGED = frozenset(
    (
        *(Reason.DONE, Reason.COMMAND_FAILED, Reason.GPU_FAULT, Reason.WRONG_ANSWER),
        *(Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.OUTPUT_LIMIT),
        *(Reason.DISK_LIMIT, Reason.PIDS_LIMIT, Reason.GPU_MEMORY),
        *(Reason.USAGE, Reason.CANCELLED),
    )
)
"""The ends that use an attempt: those that are the team's own doing."""


def view(
    one: Milestone, now: float, used: int = 0, last: Submission | None = None
) -> MilestoneView:
    """Return a milestone as it is listed, with what a team did for it."""
    due = one.deadline.timestamp() if one.deadline else None
    closed = one.closed(now)
    return MilestoneView(
        one.name, one.title, one.trust, due, closed, one.attempts, used, last
    )


def following(
    stages: Sequence[MilestoneRun], runs: Sequence[StageRun]
) -> MilestoneRun | None:
    """Return the run that follows those that have ended; None if none does."""
    if not runs:
        return stages[0]
    last = runs[-1]
    place = next(n for n, stage in enumerate(stages) if stage.name == last.name)
    if last.reason is Reason.DONE:
        return stages[place + 1] if place + 1 < len(stages) else None
    spoiled = [one for one in runs if one.reason in REPEATED]
    repeats = last.reason in REPEATED and len(spoiled) <= MOST_REPEATS
    return stages[place] if repeats else None


def latest(runs: Iterable[StageRun]) -> dict[str, str]:
    """Return the ids of runs by what they did; of repeated ones the last."""
    return {one.name: one.run for one in runs}


def counting(some: Iterable[Submission], how: Counted) -> int | None:
    """Return the number of the one that counts of a team's for one milestone."""
    able = sorted((one for one in some if one.may_count), key=lambda one: one.number)
    if not able:
        return None
    if decided := [one for one in able if one.decided is not None]:
        return decided[-1].number
    if how is Counted.CHOSEN and (chosen := [one for one in able if one.chosen]):
        return chosen[-1].number
    timed = [(one.measured.score, one.number) for one in able if one.measured]
    ranked = [(score, number) for score, number in timed if score is not None]
    if how is Counted.BEST and ranked:
        return min(ranked)[1]
    return able[-1].number
