"""What Slurm lists: the jobs of a run, and the nodes of a partition."""

from __future__ import annotations

import time

from msgspec import Struct

from runner.places.slurm import programs, queue
from runner.slurm import nodes
from runner.slurm.jobs import SlurmJob
from runner.slurm.nodes import ClusterNode
from runner.slurm.queued import queued_run
from runner.store import handed
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import RemoteRun

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
    stands = queued_run(paths.id, found, asked.ahead, at, now, claimed=claimed)
    return ListedRun(found, stands, asked.trouble)


def nodes_of(partition: str) -> tuple[ClusterNode, ...]:
    """Return the nodes of a partition, or of the default one.

    Raises:
        RaiError: Slurm does not answer.
    """
    printed = programs.answer(nodes.listing(partition))[:MOST_BYTES]
    return nodes.nodes(printed.decode(errors="replace"), partition)
