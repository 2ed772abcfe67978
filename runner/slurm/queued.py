"""How a run that was handed to Slurm stands, from its jobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.slurm import reasons
from runner.slurm.jobs import JobStage, SlurmJob, stage
from runner.wire.remote_runs import QueueState, RemoteRun


def queued_run(
    run_id: str,
    jobs: Sequence[SlurmJob],
    ahead: Mapping[str, int],
    queued_at: float,
    now: float,
    *,
    claimed: bool,
) -> RemoteRun:
    """Return how a run stands; ``ahead`` is by the numbers of jobs that wait.

    ``claimed`` is whether a worker carries it out. Times are seconds since 1970.
    """
    state, why = QueueState.STARTING, "Slurm has not listed it yet"
    before: int | None = None
    estimate_s: float | None = None
    started_at: float | None = None
    if jobs:
        job = jobs[-1]
        match stage(job.state):
            case JobStage.WAITING:
                state, why = QueueState.WAITING, reasons.why_waits(job.reason)
                before = ahead.get(job.number)
                if job.start_at is not None:
                    estimate_s = max(0.0, round((job.start_at - now) / 10) * 10.0)
            case JobStage.GOING:
                why = f"Slurm has given it {job.node}" if job.node else ""
                started_at = job.start_at
            case JobStage.OVER:
                why = "Slurm has ended its job"
    if claimed:
        state, why = QueueState.RUNNING, ""
    return RemoteRun(
        run_id,
        state,
        "",
        queued_at,
        started_at=started_at,
        ahead=before,
        estimate_s=estimate_s,
        why=why,
    )
