"""What Slurm lists: the jobs of a run, and the nodes of a partition."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from runner.places.slurm import programs, queue
from runner.slurm import nodes
from runner.slurm.jobs import JobStage, SlurmJob, stage, why_waits
from runner.slurm.nodes import ClusterNode
from runner.store import handed
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun

MOST_BYTES = 32 << 20
"""How much of sinfo's output is read at most."""


class ListedRun(Struct, frozen=True):
    """The jobs of a run as Slurm last listed them, and how it stands by these.

    ``trouble`` is why Slurm does not answer at present, "" if it does.
    """

    jobs: tuple[SlurmJob, ...]
    stands: RemoteRun
    trouble: str


def run_of(paths: RunPaths, home: Home, *, claimed: bool) -> ListedRun:
    """Return what Slurm lists of a run; ``claimed`` is whether a worker has it."""
    asked, handing = queue.look(home), handed.read(paths)
    found = asked.jobs.get(handing.name, ()) if handing else ()
    at, now = handed.changed_s(paths.handed), time.time()
    stands = queued_run(paths.id, found, at, now, claimed=claimed)
    return ListedRun(found, stands, asked.trouble)


def queued_run(
    run_id: str,
    jobs: Sequence[SlurmJob],
    queued_at: float,
    now: float,
    *,
    claimed: bool,
) -> RemoteRun:
    """Return how a run stands, from its jobs.

    ``claimed`` is whether a worker carries it out. Times are seconds since 1970.
    """
    state, why = QueueState.STARTING, "Slurm has not listed it yet"
    estimate_s: float | None = None
    started_at: float | None = None
    if jobs:
        job = jobs[-1]
        match stage(job.state):
            case JobStage.WAITING:
                state, why = QueueState.WAITING, why_waits(job.reason)
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
        estimate_s=estimate_s,
        why=why,
    )


def nodes_of(partition: str) -> tuple[ClusterNode, ...]:
    """Return the nodes of a partition, or of the default one.

    Raises:
        RaiError: Slurm does not answer.
    """
    printed = programs.answer(nodes.listing(partition))[:MOST_BYTES]
    return nodes.nodes(printed.decode(errors="replace"), partition)
