"""Whether a run that was handed to Slurm goes on, and how it ended without a record.

Slurm may start a job twice after its controller was killed, forget one, or use a number
again. So the run's folder decides who carries it out, and jobs are known by their name.
Nothing is asked or changed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from runner.core.ending import Reason, Verdict
from runner.slurm.jobs import JobStage, SlurmJob, never_starts, shown, stage
from runner.store.claim import Standing

SILENT_S = 12.0
"""A worker that gave no sign of life for so long is gone, where Slurm has no job."""

ENDED_S = 5.0
"""So long after its last sign of life a worker's record has to be there."""

FORGOTTEN_S = 10.0
"""A run that Slurm does not list for so long after it was handed over was forgotten."""

COMPLETING = "COMPLETING"


class RunSigns(Struct, frozen=True):
    """What a run's folder shows: whether a worker ``claimed`` it, and two ages.

    ``silent_s`` is how long ago its worker, or the client that hands it over, gave a
    sign of life; ``handed_s`` how long before Slurm was asked it was handed over.
    """

    claimed: bool
    silent_s: float
    handed_s: float


def fate(signs: RunSigns, jobs: Sequence[SlurmJob] | None) -> Standing:
    """Return what becomes of a run without a record.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    """
    on = Standing.ELSEWHERE if signs.claimed else Standing.WAITS
    if jobs is None:
        return on
    stages = {stage(job.state) for job in jobs}
    if JobStage.GOING in stages:
        # The last processes of a job on a node that is down cannot be seen to end.
        ending = all(job.state == COMPLETING for job in jobs)
        return Standing.GONE if ending and signs.silent_s > SILENT_S else on
    if not signs.claimed:
        return _not_claimed(signs, stages)
    patience = SILENT_S if JobStage.WAITING in stages or not stages else ENDED_S
    return Standing.GONE if signs.silent_s > patience else on


def _not_claimed(signs: RunSigns, stages: set[JobStage]) -> Standing:
    if JobStage.WAITING in stages:
        return Standing.WAITS
    if stages:
        return Standing.GONE
    # The client may be packing, and Slurm's answer older than the job.
    young = signs.handed_s < FORGOTTEN_S or signs.silent_s < SILENT_S
    return Standing.WAITS if young else Standing.GONE


GONE = "rai's worker ended without a record"
UNSHARED = (
    "the node could not write into the run's folder: RAI_HOME has to be on a file"
    " system that the login node and the nodes share"
)
CANCELLED = Verdict(
    True, False, None, Reason.CANCELLED, "stopped on request, before it began"
)


class LeftRun(Struct, frozen=True):
    """A run that nobody carries out any more: its job's ``number``, "" if it had none.

    ``begun`` is whether there is an event of it; ``said`` is the last that its worker
    printed, and ``log`` where, "" if its node made no such file.
    """

    number: str
    begun: bool
    log: str
    said: str = ""


def verdict(run: LeftRun, jobs: Sequence[SlurmJob] | None) -> Verdict:
    """Return the verdict on a run, never a success.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    """
    if waits := [job for job in jobs or () if never_starts(job.reason)]:
        why = shown(waits[0].reason)
        return _bad(Reason.NOT_ALLOWED, f"Slurm would never start it: {why}")
    if not run.number and not jobs:
        text = "it was never handed to Slurm: the client ended before"
        return _bad(Reason.RUNNER_LOST, text)
    number = f"Slurm's job {run.number}" if run.number else "Slurm"
    if jobs is None:
        text = f"{number}: {GONE}, and Slurm does not answer"
        return _bad(Reason.RUNNER_LOST, text)
    if not jobs:
        return _bad(Reason.RUNNER_LOST, f"{number} is not known to Slurm any more")
    reason, words = _how(jobs[-1])
    where = f" on {jobs[-1].node}" if jobs[-1].node else ""
    text = f"{number}{where}: {words}"
    if reason is not Reason.RUNNER_LOST:
        return Verdict(True, False, None, reason, text)
    if not run.begun and run.log:
        text += f"; no worker took the run: {run.said or 'see ' + run.log}"
    elif not run.begun and stage(jobs[-1].state) is JobStage.OVER:
        text += f"; {UNSHARED}"
    return _bad(reason, text)


def _how(job: SlurmJob) -> tuple[Reason, str]:
    match stage(job.state):
        case JobStage.OVER:
            why = f", reason {shown(job.reason)}" if job.reason else ""
            return how_ended(job.state, job.reason), f"state {shown(job.state)}{why}"
        case JobStage.WAITING:
            return Reason.RUNNER_LOST, f"{GONE}, and its job waits again"
        case JobStage.GOING:
            return Reason.RUNNER_LOST, GONE


def how_ended(state: str, reason: str = "") -> Reason:
    """Return why a run ended, by its job's last state and reason."""
    match state:
        case "TIMEOUT" | "DEADLINE":
            return Reason.TIME_LIMIT
        case "OUT_OF_MEMORY":
            return Reason.MEMORY_LIMIT
        case "CANCELLED":
            return Reason.CANCELLED
        case "FAILED" if never_starts(reason):
            return Reason.NOT_ALLOWED
        case _:
            return Reason.RUNNER_LOST


def _bad(reason: Reason, text: str) -> Verdict:
    return Verdict(False, False, None, reason, text)
