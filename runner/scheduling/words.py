"""Why a run waits, in words."""

from __future__ import annotations

from datetime import datetime

from runner.core.units import DAY_S
from runner.scheduling.judging import Hold
from runner.scheduling.roles import Role
from runner.scheduling.room import GpuDay, RunRoom
from runner.scheduling.turns import QueuedRun
from runner.wire.capacity import Capacity

NOT_LOOKED = "the server has not looked at its engines and GPUs yet"
FAR_BEHIND = "many runs before it"
"""For those far behind, whose number changes with each start."""


def drained(why: str) -> str:
    """Return that staff let nothing start."""
    return f"the server is drained: {why}"


def no_service(problem: str) -> str:
    """Return that nothing can be run."""
    return f"the server can run nothing: {problem}"


def low_disk(free: str, least: str) -> str:
    """Return that there is too little disk."""
    return f"only {free} of disk are left for runs, which need {least}"


def why(
    run: QueuedRun,
    hold: Hold,
    ahead: int,
    room: RunRoom,
    role: Role,
    facts: Capacity,
) -> str:
    """Return what holds a run, to be read by its team."""
    match hold:
        case Hold.TEAM if room.spent(run, role):
            return _spent(room.gpu_use[run.team], role.gpu_a_day_s or 0)
        case Hold.TEAM:
            return _team(room.teams.get(run.team, 0), role.at_once or 0)
        case Hold.NEVER:
            return _out(facts) or _too_many(run.gpus, len(facts.gpus))
        case Hold.BEHIND:
            return _also_out(f"{_count(ahead)} before it", run, facts)
        case Hold.ROOM if room.in_slurm:
            most, kind = (room.gpus, "with") if run.gpus else (room.slots, "without")
            return f"{_count(most)} {kind} a GPU may be in Slurm's queue at a time"
        case Hold.ROOM if run.gpus:
            return _also_out(_no_gpu(run.gpus, room), run, facts)
        case Hold.ROOM:
            return f"no slot is free: {room.slots - room.slots_free} in use"
        case Hold.NOTHING:
            return ""


def _team(going: int, most: int) -> str:
    if going >= most:
        return f"your team has {_count(going)} going, as many as it may"
    return f"your team may have {_count(most)} going, and earlier ones come first"


def _spent(use: GpuDay, most_s: float) -> str:
    text = f"your team had GPUs for the {most_s / 60:g} min that it may in 24 hours"
    return f"{text}; more from {datetime.fromtimestamp(use.since + DAY_S):%b %d %H:%M}"


def _no_gpu(wanted: int, room: RunRoom) -> str:
    used = room.gpus - room.gpus_free
    if wanted == 1 or not room.gpus_free:
        return f"no GPU is free: {used} in use"
    return f"it needs {wanted} GPUs: {room.gpus_free} free, {used} in use"


def _too_many(wanted: int, there: int) -> str:
    if not there:
        return "it needs a GPU, and this server has none"
    return f"it needs {wanted} GPUs, and this server has {there}"


def _also_out(text: str, run: QueuedRun, facts: Capacity) -> str:
    out = _out(facts) if run.gpus else ""
    return f"{text}; {out}" if out else text


def _out(facts: Capacity) -> str:
    return "; ".join(
        f"GPU {number} is out of order: {gpu.out}"
        for number, gpu in enumerate(facts.gpus)
        if gpu.out
    )


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"
