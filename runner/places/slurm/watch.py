"""Why a run waits on Slurm, kept up to date in its folder while somebody watches."""

from __future__ import annotations

import threading
import time

from runner.core.errors import RaiError
from runner.places.slurm import queue
from runner.slurm import reasons
from runner.slurm.jobs import JobStage, SlurmJob, stage
from runner.store import claim, handed, seen
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun

LOOK_S = 1.0


class SlurmWatch:
    """Asks what a run waits for until it has begun, in a thread of its own.

    ``trouble`` is why Slurm does not answer at present, "" if it does.
    """

    def __init__(self, paths: RunPaths, home: Home) -> None:
        self.paths, self.trouble = paths, ""
        self._home = home
        self._stop, self._looked = threading.Event(), threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="rai-slurm", daemon=True
        )

    @property
    def settled(self) -> bool:
        """Whether the queue was looked at."""
        return self._looked.is_set()

    @property
    def doubt(self) -> str:
        """Why it is not known how the run stands, "" if it is."""
        return self.trouble

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def check(self) -> None:
        """Do nothing: what fails here is trouble, and passes."""

    def _work(self) -> None:
        last: RemoteRun | None = None
        while not self._stop.is_set() and not self.paths.record.exists():
            try:
                found = self._standing()
                if found != last:
                    seen.write(self.paths, found)
                last = found
            except (OSError, RaiError) as error:
                self.trouble = str(error)
            self._looked.set()
            self._stop.wait(LOOK_S)
        self._looked.set()

    def _standing(self) -> RemoteRun:
        asked, handing = queue.look(self._home), handed.read(self.paths)
        self.trouble = asked.trouble
        began = handed.changed_s(self.paths.handed)
        jobs = asked.jobs.get(handing.name, ()) if handing else ()
        return standing(
            self.paths.id,
            jobs,
            asked.ahead,
            began,
            time.time(),
            claimed=claim.holder(self.paths) is not None,
        )


def standing(
    run_id: str,
    jobs: tuple[SlurmJob, ...],
    ahead: dict[str, int],
    queued_at: float,
    now: float,
    *,
    claimed: bool,
) -> RemoteRun:
    """Return how a run stands, from its jobs. Pure."""
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
                    estimate_s = max(0.0, round(job.start_at - now))
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
