"""Why Slurm tells a job to end, which its worker asks while it does so.

A job is then COMPLETING, whatever comes after, or still RUNNING where a preemption
leaves it some time. What Slurm is about is seen from its reason, from the time of a
preemption and from how often the job was put back into the queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from runner.core.errors import RaiError
from runner.places.slurm import programs
from runner.slurm.jobs import JobStage, shown, stage

ENDED = "Slurm told the job to end"
_STATE, _REASON, _PREEMPTED, _RESTARTS = 20, 128, 20, 12
ARGUMENTS = (
    "--noheader",
    "--all",
    "--states=all",
    f"--Format=State:{_STATE},Reason:{_REASON},PreemptTime:{_PREEMPTED}"
    f",RestartCnt:{_RESTARTS}",
)
_LINE = _STATE + _REASON + _PREEMPTED + _RESTARTS


def why_ends(environ: Mapping[str, str]) -> str:
    """Return why the job with an environment was told to end.

    It is "" outside of a job, and where Slurm does not say.
    """
    number = environ.get("SLURM_JOB_ID", "")
    restarts = environ.get("SLURM_RESTART_COUNT", "")
    if not number:
        return ""
    try:
        printed = programs.answer(["squeue", *ARGUMENTS, f"--jobs={number}"])
    except RaiError:
        return ""
    state = next_state(printed, int(restarts) if restarts.isdecimal() else 0)
    return f"{ENDED}: {shown(state)}" if state else ""


def next_state(output: bytes, restarts: int) -> str:
    """Return the state that a job will end in, by what squeue printed of it.

    ``restarts`` is the job's own SLURM_RESTART_COUNT, 0 without. It is "" where Slurm
    does not end the job, or printed something else.
    """
    line = output[:_LINE].decode("ascii", errors="replace")
    if len(line) < _LINE:
        return ""
    state, reason = line[:_STATE].rstrip(), line[_STATE:][:_REASON].rstrip()
    preempted = line[_STATE + _REASON :][:_PREEMPTED].rstrip()[:1].isdigit()
    count = line[-_RESTARTS:].rstrip()
    more = count.isascii() and count.isdigit() and int(count) > restarts
    if stage(state) is JobStage.OVER:
        return state
    if reason == "TimeLimit":
        return "TIMEOUT"
    if more or stage(state) is JobStage.WAITING:
        return "REQUEUED"
    if preempted:
        return "PREEMPTED"
    return "CANCELLED" if state == "COMPLETING" else ""
