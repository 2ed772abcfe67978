"""How a run on Slurm stands, kept up to date in its folder while somebody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from runner.core.errors import RaiError
from runner.places.slurm import queue
from runner.slurm.jobs import JobStage, SlurmJob, stage, why_waits
from runner.store import claim, handed, seen
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun

LOOK_S = 1.0


def run_of(paths: RunPaths, home: Home) -> tuple[RemoteRun, str]:
    """Return how a run stands, and why Slurm does not answer, "" if it does."""
    asked, handing = queue.look(home), handed.read(paths)
    found = asked.jobs.get(handing.name, ()) if handing else ()
    at, now = handed.changed_s(paths.handed), time.time()
    claimed = claim.holder(paths) is not None
    return queued_run(paths.id, found, at, now, claimed=claimed), asked.trouble


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


class SlurmWatch:
    """Asks what a run waits for, in a thread, and writes it as long as it waits.

    ``trouble`` is why Slurm does not answer at present, "" if it does; ``settled`` is
    whether the queue was looked at.
    """

    def __init__(self, paths: RunPaths, home: Home) -> None:
        self.paths, self.trouble, self.settled = paths, "", False
        self._home, self._over = home, threading.Event()

    @property
    def doubt(self) -> str:
        """Why it is not known how the run stands, "" if it is."""
        return self.trouble

    def start(self) -> None:
        """Begin to look."""
        threading.Thread(target=self._watch, name="rai-slurm", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()

    def check(self) -> None:
        """Do nothing: what fails here is trouble, and passes."""

    def _watch(self) -> None:
        last = None
        while not self._over.is_set():
            try:
                if not self.paths.record.exists():
                    found, self.trouble = run_of(self.paths, self._home)
                    if found != last:
                        seen.write(self.paths, found)
                    last = found
            except (OSError, RaiError) as error:
                self.trouble = str(error)
            self.settled = True
            self._over.wait(LOOK_S)
