"""Why Slurm tells a job to end, while it does so.

A job is then COMPLETING, whatever comes after, or still RUNNING where a preemption
leaves it some time. What Slurm is about is seen from its reason, from the time of a
preemption and from how often the job was put back into the queue.
"""

from __future__ import annotations

from runner.core.ending import Reason
from runner.slurm.jobs import JobStage, stage
from runner.slurm.reasons import JobEnd, how_ended

_STATE, _REASON, _PREEMPTED, _RESTARTS = 20, 128, 20, 12
ARGUMENTS = (
    "--noheader",
    "--all",
    "--states=all",
    f"--Format=State:{_STATE},Reason:{_REASON},PreemptTime:{_PREEMPTED}"
    f",RestartCnt:{_RESTARTS}",
)
"""What squeue is called with, and ``--jobs=NUMBER``, in the environment of ``jobs``."""

_LINE = _STATE + _REASON + _PREEMPTED + _RESTARTS


def why_told(output: bytes, restarts: int) -> JobEnd | None:
    """Return why a job is told to end, by what squeue printed of it.

    ``restarts`` is the job's own SLURM_RESTART_COUNT, 0 without. None where Slurm does
    not end the job, or printed something else.
    """
    line = output[:_LINE].decode("ascii", errors="replace")
    if len(line) < _LINE:
        return None
    state, reason = line[:_STATE].rstrip(), line[_STATE:][:_REASON].rstrip()
    preempted = line[_STATE + _REASON :][:_PREEMPTED].rstrip()[:1].isdigit()
    count = line[-_RESTARTS:].rstrip()
    more = count.isascii() and count.isdigit() and int(count) > restarts
    if stage(state) is JobStage.OVER:
        return how_ended(state, reason)
    if reason == "TimeLimit":
        return how_ended("TIMEOUT", reason)
    if more or stage(state) is JobStage.WAITING:
        words = "Slurm put the job back into its queue"
        return JobEnd(Reason.RUNNER_LOST, words)
    if preempted:
        return how_ended("PREEMPTED", reason)
    return how_ended("CANCELLED", reason) if state == "COMPLETING" else None
