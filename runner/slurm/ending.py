"""How a run ended that was handed to Slurm and left no record. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from runner.core.ending import Reason, Verdict
from runner.slurm import reasons
from runner.slurm.jobs import JobStage, SlurmJob, stage

GONE = "rai's worker ended without a record"
CANCELLED = Verdict(
    True, False, None, Reason.CANCELLED, "stopped on request, before it began"
)


class LeftRun(Struct, frozen=True):
    """A run that nobody carries out any more: its job's ``number``, "" if it had none.

    ``begun`` is whether there is an event of it; ``said`` is the last that its worker
    printed, and ``log`` where.
    """

    number: str
    begun: bool
    log: str
    said: str = ""


def verdict(run: LeftRun, jobs: Sequence[SlurmJob] | None) -> Verdict:
    """Return the verdict on a run, never a success.

    ``jobs`` are all of its name that Slurm lists; None where Slurm does not answer.
    """
    if waits := [job for job in jobs or () if reasons.never_starts(job.reason)]:
        why = reasons.why_waits(waits[0].reason)
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
    if not run.begun:
        text += f"; no worker took the run: {run.said or 'see ' + run.log}"
    return _bad(reason, text)


def _how(job: SlurmJob) -> tuple[Reason, str]:
    match stage(job.state):
        case JobStage.OVER:
            end = reasons.how_ended(job.state, job.reason)
            return end.reason, end.words
        case JobStage.WAITING:
            return Reason.RUNNER_LOST, f"{GONE}, and its job waits again"
        case JobStage.GOING:
            return Reason.RUNNER_LOST, GONE


def _bad(reason: Reason, text: str) -> Verdict:
    return Verdict(False, False, None, reason, text)
