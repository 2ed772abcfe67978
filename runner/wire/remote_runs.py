"""Runs on a server, as its HTTP interface shows them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from runner.core.ending import Reason

MOST_WHY = 200
"""Characters of why a queue is drained."""


class QueueState(StrEnum):
    """Where a run stands on a server.

    STARTING runs were given to a worker, and may or may not have begun.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


class RemoteRun(Struct, frozen=True):
    """A run on a server.

    ``ahead`` is the number of runs that start before it, ``estimate_s`` after how many
    seconds it should start, both only while it waits; ``why`` says in words what it
    waits for, or why it ended without a record. Times are seconds since 1970.
    ``mine`` tells whether it is the asking team's; of others' runs ``person`` and
    ``project`` are empty.
    """

    id: str
    state: QueueState
    team: str
    queued_at: float
    person: str = ""
    project: str = ""
    gpus: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    ahead: int | None = None
    estimate_s: float | None = None
    why: str = ""
    reason: Reason | None = None
    cancelled: bool = False
    mine: bool = True


class DrainRequest(Struct, frozen=True):
    """`PUT /api/v1/queue/drain`, of staff: why no run starts; "" starts them again."""

    why: Annotated[str, Meta(max_length=MOST_WHY)]


class QueueView(Struct, frozen=True):
    """`GET /api/v1/queue`: what runs and what waits, in the order of their starts.

    ``note`` says why nothing starts, if so. Of a long queue ``left_out`` runs of other
    teams are not among those that wait. With ``in_slurm`` Slurm has GPUs and slots:
    they are then how many runs with a GPU, and without, may be in its queue.
    """

    running: tuple[RemoteRun, ...]
    waiting: tuple[RemoteRun, ...]
    gpus: int
    gpus_free: int
    slots: int
    slots_free: int
    note: str = ""
    left_out: int = 0
    in_slurm: bool = False


class RunPage(Struct, frozen=True):
    """`GET /api/v1/runs?state=&after=&limit=`; ``after`` begins the next page."""

    runs: tuple[RemoteRun, ...]
    after: str = ""
