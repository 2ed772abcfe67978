"""Which of the runs that wait fit into the room that there is, in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from runner.scheduling.roles import ServerRules
from runner.scheduling.room import RunRoom
from runner.scheduling.turns import Queued, QueuedRun, QueueLane, lane


class Hold(Enum):
    """Why a run does not start now."""

    NOTHING = auto()
    """It starts."""

    TEAM = auto()
    """Its team has as many runs going as it may, or will with those before it; or had
    GPUs as long as it may."""

    NEVER = auto()
    """It needs more than there is in order."""

    BEHIND = auto()
    """Runs of its lane come before it."""

    ROOM = auto()
    """It is the next of its lane, and there is no room."""


def judged(
    order: Sequence[Queued],
    aged: Sequence[Queued],
    room: RunRoom,
    rules: ServerRules,
    *,
    only_starts: bool = False,
) -> Iterator[tuple[Queued, Hold]]:
    """Yield each run in its order, and what holds it; take the room of what starts.

    ``aged`` are the same runs by age. With ``only_starts`` the rest is left out once
    nothing more can start.
    """
    chances = _chances(aged, room, rules)
    closed: set[QueueLane] = set()
    for run in order:
        hold = chances.get(run.id, Hold.TEAM)
        if hold is Hold.NOTHING:
            hold = _hold(run, room, closed)
        yield run, hold
        if only_starts and len(closed) == len(QueueLane):
            return


def _hold(run: QueuedRun, room: RunRoom, closed: set[QueueLane]) -> Hold:
    if lane(run) in closed:
        return Hold.BEHIND
    if room.fits(run):
        room.take(run)
        return Hold.NOTHING
    closed.add(lane(run))
    return Hold.ROOM


def _chances(
    aged: Sequence[QueuedRun], room: RunRoom, rules: ServerRules
) -> dict[str, Hold]:
    """Return the runs that are not held by their team, and those that cannot run.

    A team may have so many runs at once: its oldest ones have the first right to that,
    so that none waits for ever behind its own team's later ones.
    """
    left: dict[str, float] = {}
    found: dict[str, Hold] = {}
    for run in aged:
        if room.never(run):
            found[run.id] = Hold.NEVER
            continue
        team, role = run.team, rules.role(run.role)
        if room.spent(run, role):
            continue
        if team not in left:
            most = role.at_once
            going = room.teams.get(team, 0)
            left[team] = float("inf") if most is None else most - going
        if left[team] > 0:
            left[team] -= 1
            found[run.id] = Hold.NOTHING
    return found
