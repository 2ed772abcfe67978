"""Whose turn it is: the order in which runs that wait should start.

Teams take turns, in each lane by itself: runs with GPUs, and runs without. A team's
next run comes after the next ones of all other teams that wait in this lane; first
comes the team whose last start there is the longest ago. So however many runs a team
has waiting, it delays another team by one start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Protocol, TypeVar

from runner.scheduling.history import QueueHistory
from runner.wire.remote_runs import QueueState


class QueueLane(StrEnum):
    """What runs wait for; those of one lane start in strict order."""

    CPU = "cpu"
    GPU = "gpu"


class QueuedRun(Protocol):
    """What of a run decides when it starts; a QueueRow of the store has it."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def team(self) -> str:
        """Whose it is."""

    @property
    def role(self) -> str:
        """The role of its team."""

    @property
    def gpus(self) -> int:
        """How many GPUs it needs."""

    @property
    def priority(self) -> int:
        """The higher, the earlier."""

    @property
    def queued_at(self) -> float:
        """When it came, in seconds since 1970."""

    @property
    def state(self) -> QueueState:
        """Where it stands."""

    @property
    def started_at(self) -> float | None:
        """When it started."""

    @property
    def ended_at(self) -> float | None:
        """When it ended."""


Queued = TypeVar("Queued", bound=QueuedRun)


def lane(run: QueuedRun) -> QueueLane:
    """Return the lane of a run."""
    return QueueLane.GPU if run.gpus else QueueLane.CPU


def by_age(waiting: Iterable[Queued]) -> list[Queued]:
    """Return runs as one team would start them: by priority, then as they came."""
    return sorted(waiting, key=lambda run: (-run.priority, run.queued_at, run.id))


def in_turn(aged: Sequence[Queued], history: QueueHistory) -> list[Queued]:
    """Return runs, which are sorted by age, in the order of their starts."""
    turns: dict[tuple[int, str, str], tuple[int, tuple[float, int]]] = {}
    keyed = []
    for run in aged:
        own = lane(run)
        mine = (run.priority, run.team, own)
        found = turns.get(mine)
        turn, last = found or (0, history.last_start(run.team, own))
        turns[mine] = turn + 1, last
        keyed.append((-run.priority, turn, last, run.queued_at, run.id, run))
    keyed.sort()  # ids differ, so runs are not compared
    return [item[-1] for item in keyed]
