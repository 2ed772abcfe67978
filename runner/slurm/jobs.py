"""Jobs as squeue lists them."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

NAME = "rai-"
"""What the names of rai's jobs begin with; the run's id follows."""


class JobStage(Enum):
    """How far a job has come."""

    WAITING = auto()
    """It has no node yet, or has to wait for one again."""

    GOING = auto()
    """It has a node: its processes may run there."""

    OVER = auto()
    """None of its processes runs any more."""


class SlurmJob(Struct, frozen=True):
    """A job; ``state`` and ``reason`` are Slurm's words, such as PENDING, Resources.

    ``start_at`` is when it started, or should start, in seconds since 1970; None where
    Slurm does not say. ``node`` is "" until it has one.
    """

    number: str
    name: str
    state: str
    reason: str = ""
    start_at: float | None = None
    node: str = ""
    partition: str = ""
    priority: int = 0
