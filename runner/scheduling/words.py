"""Why a run waits, in words."""

from __future__ import annotations

from collections.abc import Sequence

from runner.scheduling.judging import Hold, RunRoom
from runner.scheduling.roles import Role
from runner.scheduling.turns import QueuedRun
from runner.wire.host import HostFacts, HostNode

NO_HOST = "the job host has not answered yet"
MOST_NODES = 3
"""So many nodes that are out are named."""

FAR_BEHIND = "many runs before it"
"""For those far behind, whose number changes with each start."""


def drained(why: str) -> str:
    """Return that staff let nothing start."""
    return f"the server is drained: {why}"


def out_of_reach(since: str) -> str:
    """Return that the job host does not answer."""
    return f"the job host cannot be reached since {since}"


def no_service(problem: str) -> str:
    """Return that the job host can run nothing."""
    return f"the job host can run nothing: {problem}"


def low_disk(free: str, least: str) -> str:
    """Return that there is too little disk."""
    return f"the job host has only {free} of disk left, and needs {least}"


def why(
    run: QueuedRun,
    hold: Hold,
    ahead: int,
    room: RunRoom,
    role: Role,
    facts: HostFacts,
) -> str:
    """Return what holds a run, to be read by its team."""
    if facts.nodes:
        return _on_cluster(run, hold, ahead, room, role, facts)
    match hold:
        case Hold.TEAM:
            return _team(room.teams.get(run.team, 0), role.at_once or 0)
        case Hold.NEVER:
            return _out(facts) or _too_many(run.gpus, len(facts.gpus))
        case Hold.MEASURED:
            if room.alone:
                return "a run that has the machine to itself goes on"
            return "a run that needs the machine to itself is next"
        case Hold.ALONE:
            return f"it needs the machine to itself, and {_runs(room.going)} on still"
        case Hold.BEHIND:
            return _also_out(f"{_count(ahead)} before it", run, facts)
        case Hold.ROOM if run.gpus:
            return _also_out(_no_gpu(run.gpus, room), run, facts)
        case Hold.ROOM:
            return f"no slot is free: {room.slots - room.slots_free} in use"
        case Hold.NOTHING:
            return ""


def _on_cluster(
    run: QueuedRun,
    hold: Hold,
    ahead: int,
    room: RunRoom,
    role: Role,
    facts: HostFacts,
) -> str:
    out = nodes_out(facts.nodes)
    match hold:
        case Hold.TEAM:
            return _team(room.teams.get(run.team, 0), role.at_once or 0)
        case Hold.NEVER:
            return "; ".join(filter(None, (_on_no_node(run, facts), out)))
        case Hold.BEHIND:
            text = f"{_count(ahead)} before it"
        case _ if before := room.before(run):
            text = f"{_count(before)} before it in Slurm's queue"
        case Hold.ALONE:
            text = "it needs a node to itself, and none is idle"
        case _ if run.gpus:
            text = _no_gpu(run.gpus, room)
        case _:
            text = f"no slot is free: {room.slots - room.slots_free} in use"
    return f"{text}; {out}" if out else text


def nodes_out(nodes: Sequence[HostNode]) -> str:
    """Return which nodes of a cluster take no run, and why; "" if all do."""
    found = [f"node {node.name} {node.out}" for node in nodes if node.out]
    more = len(found) - MOST_NODES
    if more > 0:
        found[MOST_NODES:] = [f"and {more} more node{'s' if more > 1 else ''}"]
    return "; ".join(found)


def _on_no_node(run: QueuedRun, facts: HostFacts) -> str:
    """Return what no node has; "" if one has it that is out."""
    if not run.gpus:
        return ""
    most = max(
        node.gpus.get(run.gpu_model, 0) if run.gpu_model else sum(node.gpus.values())
        for node in facts.nodes
    )
    if most >= run.gpus:
        return ""
    model = f" of the model {run.gpu_model}" if run.gpu_model else ""
    if not most:
        return f"it needs a GPU{model}, and no node has one"
    return f"it needs {run.gpus} GPUs{model}, and no node has more than {most}"


def _team(going: int, most: int) -> str:
    if going >= most:
        return f"your team has {_count(going)} going, as many as it may"
    return f"your team may have {_count(most)} going, and earlier ones come first"


def _no_gpu(wanted: int, room: RunRoom) -> str:
    used = room.gpus - room.gpus_free
    if wanted == 1 or not room.gpus_free:
        return f"no GPU is free: {used} in use"
    return f"it needs {wanted} GPUs: {room.gpus_free} free, {used} in use"


def _too_many(wanted: int, there: int) -> str:
    if not there:
        return "it needs a GPU, and this server has none"
    return f"it needs {wanted} GPUs, and this server has {there}"


def _also_out(text: str, run: QueuedRun, facts: HostFacts) -> str:
    out = _out(facts) if run.gpus else ""
    return f"{text}; {out}" if out else text


def _out(facts: HostFacts) -> str:
    return "; ".join(
        f"GPU {number} is out of order: {gpu.out}"
        for number, gpu in enumerate(facts.gpus)
        if gpu.out
    )


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _runs(number: int) -> str:
    return "1 run goes" if number == 1 else f"{number} runs go"
