"""Whether a run that was handed to Slurm goes on, from its folder and its jobs. Pure.

Slurm may start a job twice after its controller was killed, forget one, or use a number
again. So the run's folder decides who carries it out, and jobs are known by their name.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from msgspec import Struct

from runner.slurm.jobs import JobStage, SlurmJob, stage

SILENT_S = 12.0
"""A worker that gave no sign of life for so long is gone, where Slurm has no job."""

ENDED_S = 5.0
"""So long after its last sign of life a worker's record has to be there."""

FORGOTTEN_S = 10.0
"""A run that Slurm does not list for so long after it was handed over was forgotten."""

COMPLETING = "COMPLETING"


class RunFate(Enum):
    """What becomes of a run."""

    WAITS = auto()
    """No worker has taken it, and one will."""

    LIVES = auto()
    """A worker carries it out."""

    GONE = auto()
    """Nobody carries it out, and nobody will."""


class RunSigns(Struct, frozen=True):
    """What a run's folder shows: whether a worker ``claimed`` it, and two ages.

    ``silent_s`` is how long ago its worker, or the client that hands it over, gave a
    sign of life; ``handed_s`` how long before Slurm was asked it was handed over.
    """

    claimed: bool
    silent_s: float
    handed_s: float


def fate(signs: RunSigns, jobs: Sequence[SlurmJob] | None) -> RunFate:
    """Return what becomes of a run without a record.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    """
    on = RunFate.LIVES if signs.claimed else RunFate.WAITS
    if jobs is None:
        return on
    stages = {stage(job.state) for job in jobs}
    if JobStage.GOING in stages:
        # The last processes of a job on a node that is down cannot be seen to end.
        ending = all(job.state == COMPLETING for job in jobs)
        return RunFate.GONE if ending and signs.silent_s > SILENT_S else on
    if not signs.claimed:
        return _not_claimed(signs, stages)
    patience = SILENT_S if JobStage.WAITING in stages or not stages else ENDED_S
    return RunFate.GONE if signs.silent_s > patience else on


def _not_claimed(signs: RunSigns, stages: set[JobStage]) -> RunFate:
    if JobStage.WAITING in stages:
        return RunFate.WAITS
    if stages:
        return RunFate.GONE
    # The client may be packing, and Slurm's answer older than the job.
    young = signs.handed_s < FORGOTTEN_S or signs.silent_s < SILENT_S
    return RunFate.WAITS if young else RunFate.GONE
