"""A job host on a cluster for tests: jobs wait for nodes in the order they came.

``tick`` is what Slurm does at times: it gives nodes to the jobs that wait. ``busy`` are
cores that others' jobs have, by node.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from runner.core import State
from runner.wire.host import HostFacts, HostNode, HostRun, StartRun
from tests.runner.server.fake_host import FakeHost

WAITS = "Slurm has no room for it yet"


class FakeCluster(FakeHost):
    """A JobHost with nodes n1, n2, ... of which each run takes a core."""

    def __init__(self, folder: Path, nodes: int = 2, cores: int = 4) -> None:
        super().__init__(folder)
        self.begins = False
        self.now = 0.0
        self.cores = cores
        self.busy = {f"n{number + 1}": 0 for number in range(nodes)}
        self.out: dict[str, str] = {}
        self.jobs: list[str] = []
        """The runs in Slurm's queue, in its order."""
        self.began: list[str] = []
        self.most_waiting = 0

    def facts(self) -> HostFacts:
        nodes = tuple(
            HostNode(name, self.cores, self.cores - taken, out=self.out.get(name, ""))
            for name, taken in self._taken().items()
        )
        return replace(super().facts(), nodes=nodes, nodes_at=self.now)

    def look(self, ids: Sequence[str]) -> dict[str, HostRun]:
        found = super().look(ids)
        return {
            one: replace(run, waits=WAITS) if one in self.jobs else run
            for one, run in found.items()
        }

    def cancel(self, run_id: str) -> None:
        super().cancel(run_id)
        if run_id in self.jobs:
            self.jobs.remove(run_id)

    def tick(self, now: float) -> None:
        """Begin the jobs that have room, in their order."""
        self.now = now
        for run_id in list(self.jobs):
            free = (n for n, taken in self._taken().items() if taken < self.cores)
            name = next((n for n in free if n not in self.out), "")
            if not name:
                break
            self.jobs.remove(run_id)
            self.begin(run_id, at=now)
            self.known[run_id] = replace(self.known[run_id], node=name)
            self.began.append(run_id)
        self.most_waiting = max(self.most_waiting, len(self.jobs))

    @property
    def going(self) -> list[str]:
        """The runs that have a node, the oldest first."""
        return [one for one in self.began if not self.known[one].ended]

    def _taken(self) -> dict[str, int]:
        taken = dict(self.busy)
        for run in self.known.values():
            if run.claimed and not run.ended and run.state is not State.LOST:
                taken[run.node] += 1
        return taken

    def _keep(self, request: StartRun, parcel: Path, source: Path) -> None:
        super()._keep(request, parcel, source)
        self.jobs.append(request.id)
