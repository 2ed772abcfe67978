"""Why Slurm has told a worker to end."""

from __future__ import annotations

from runner.core.errors import RaiError
from runner.places.slurm import programs
from runner.slurm import jobs, reasons
from runner.slurm.jobs import JobStage, stage

ENDED = "Slurm told the job to end"


def why_ends(number: str) -> str:
    """Return in words why a job was told to end; "" where Slurm does not say."""
    if not number:
        return ""
    try:
        printed = programs.answer(["squeue", *jobs.ARGUMENTS, f"--jobs={number}"])
        found = jobs.parse(printed)
    except (RaiError, ValueError):
        return ""
    for job in found:
        if stage(job.state) is JobStage.WAITING:
            return f"{ENDED}: it was requeued"
        if stage(job.state) is JobStage.OVER:
            return f"{ENDED}: {reasons.how_ended(job.state, job.reason).words}"
    return ""
