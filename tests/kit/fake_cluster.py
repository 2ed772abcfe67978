"""The runs of a server on a cluster: jobs wait in Slurm's queue in the order they came.

``tick`` is what Slurm does at times: it begins the jobs that have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from runner.core.wire import Capacity
from runner.server.decision import RunStatus
from tests.kit.fake_runs import FakeRuns

WAITS = "Slurm has no room for it yet"


class FakeCluster(FakeRuns):
    """ServerRuns whose cluster has room for some runs at a time."""

    def __init__(self, folder: Path, room: int = 4) -> None:
        super().__init__(folder)
        self.begins = False
        self.room = room
        self.jobs: list[str] = []
        """The runs in Slurm's queue, in its order."""
        self.began: list[str] = []

    def capacity(self) -> Capacity | None:
        found = super().capacity()
        return found and replace(found, home="/runs", node_gpus=1)

    def look(self, ids: Sequence[str]) -> dict[str, RunStatus]:
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
        while self.jobs and len(self.going) < self.room:
            run_id = self.jobs.pop(0)
            self.begin(run_id, at=now)
            self.began.append(run_id)

    @property
    def going(self) -> list[str]:
        """The runs that have begun, the oldest first."""
        return [one for one in self.began if not self.known[one].ended]

    def _keep(self, run_id: str, parcel: bytes, source: Path) -> None:
        super()._keep(run_id, parcel, source)
        self.jobs.append(run_id)
