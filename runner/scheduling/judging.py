"""Which of the runs that wait fit into the room that there is, in their order."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from enum import Enum, auto
from typing import Protocol

from runner.scheduling.roles import ServerRules
from runner.scheduling.turns import Queued, QueuedRun, QueueLane, lane


class RunRoom(Protocol):
    """What is free for runs; a MachineRoom or a ClusterRoom."""

    teams: dict[str, int]

    @property
    def going(self) -> int:
        """How many runs go on."""

    @property
    def alone(self) -> bool:
        """Whether a run that goes on has all of it to itself."""

    @property
    def gpus(self) -> int:
        """How many GPUs there are that are not out."""

    @property
    def gpus_free(self) -> int:
        """How many of them are free."""

    @property
    def slots(self) -> int:
        """How many runs without a GPU have room."""

    @property
    def slots_free(self) -> int:
        """How many more of them have room."""

    @property
    def waiting(self) -> Sequence[QueuedRun]:
        """The runs that were handed over and wait where they shall run."""

    @property
    def whole(self) -> bool:
        """Whether a run that wants to be alone takes all that there is."""

    def line(self, run: QueuedRun) -> Hashable:
        """Return what a run waits for; those that wait for the same start in order."""

    def full(self, closed: Collection[Hashable]) -> bool:
        """Whether nothing more starts once these lines are closed."""

    def never(self, run: QueuedRun) -> bool:
        """Whether a run has no room even where nothing else runs."""

    def before(self, run: QueuedRun) -> int:
        """Return how many runs were handed over, wait, and start before it."""

    def fits(self, run: QueuedRun) -> bool:
        """Whether a run can start now, but for its team."""

    def take(self, run: QueuedRun) -> None:
        """Count a run as going on."""

    def give(self, run: QueuedRun) -> None:
        """Count a run as ended."""

    def played(self) -> RunRoom:
        """Return another one of the same room, to play runs through."""


class Hold(Enum):
    """Why a run does not start now."""

    NOTHING = auto()
    """It starts."""

    TEAM = auto()
    """Its team has as many runs going as it may, or will with those before it."""

    NEVER = auto()
    """It needs more than there is in order."""

    BEHIND = auto()
    """Runs of its lane come before it."""

    ROOM = auto()
    """It is the next of its lane, and there is no room."""

    ALONE = auto()
    """It is the next, and needs a machine to itself."""

    MEASURED = auto()
    """A run that needs the machine to itself goes on or is the next."""


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
    closed: set[Hashable] = set()
    quiet = room.alone
    for run in order:
        hold = chances.get(run.id, Hold.TEAM)
        if hold is Hold.NOTHING:
            hold = Hold.MEASURED if quiet else _hold(run, room, closed)
            alone = room.whole and run.alone
            quiet = quiet or (alone and hold in (Hold.NOTHING, Hold.ALONE))
        yield run, hold
        if only_starts and (quiet or room.full(closed)):
            return


def _hold(run: QueuedRun, room: RunRoom, closed: set[Hashable]) -> Hold:
    own = room.line(run)
    alone = lane(run) is QueueLane.ALONE
    if own in closed or (room.whole and alone and closed):
        closed.add(own)
        return Hold.BEHIND
    if room.fits(run):
        room.take(run)
        return Hold.NOTHING
    if not (room.whole and alone):
        closed.add(own)
    return Hold.ALONE if alone else Hold.ROOM


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
        team = run.team
        if team not in left:
            most = rules.role(run.role).at_once
            going = room.teams.get(team, 0)
            left[team] = float("inf") if most is None else most - going
        if left[team] > 0:
            left[team] -= 1
            found[run.id] = Hold.NOTHING
    return found
