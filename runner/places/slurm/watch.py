"""How a run on Slurm stands, kept up to date in its folder while somebody watches."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from msgspec import Struct

from runner.core.errors import RaiError
from runner.places.slurm import queue
from runner.slurm.jobs import JobStage, SlurmJob, stage, why_waits
from runner.store import claim, handed, seen
from runner.store.paths import Home, RunPaths
from runner.wire.remote_runs import QueueState, RemoteRun

LOOK_S = 1.0


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


class SlurmWatch:
    """Asks what a run waits for until it has begun.

    ``trouble`` is why Slurm does not answer at present, "" if it does.
    """

    def __init__(self, paths: RunPaths, home: Home) -> None:
        self.paths, self.trouble = paths, ""
        self._home = home
        self._looked_s: float | None = None
        self._last: RemoteRun | None = None

    @property
    def settled(self) -> bool:
        """Whether the queue was looked at."""
        return self._looked_s is not None

    @property
    def due(self) -> bool:
        """Whether it is time to look again."""
        at_s = self._looked_s
        return at_s is None or time.monotonic() - at_s >= LOOK_S

    @property
    def doubt(self) -> str:
        """Why it is not known how the run stands, "" if it is."""
        return self.trouble

    def start(self) -> None:
        """Begin to look."""
        _WATCHED.add(self)

    def stop(self) -> None:
        """Look no more."""
        _WATCHED.remove(self)

    def check(self) -> None:
        """Do nothing: what fails here is trouble, and passes."""

    def look(self) -> None:
        """Write how the run stands, if that is news."""
        try:
            if not self.paths.record.exists():
                self._write(self._standing())
        except (OSError, RaiError) as error:
            self.trouble = str(error)
        self._looked_s = time.monotonic()

    def _write(self, found: RemoteRun) -> None:
        if found != self._last:
            seen.write(self.paths, found)
        self._last = found

    def _standing(self) -> RemoteRun:
        claimed = claim.holder(self.paths) is not None
        found = run_of(self.paths, self._home, claimed=claimed)
        self.trouble = found.trouble
        return found.stands


class _Watched:
    """The watches of this process, which one thread serves as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: set[SlurmWatch] = set()
        self._serving = False
        self._added = threading.Event()

    def add(self, watch: SlurmWatch) -> None:
        with self._lock:
            self._watches.add(watch)
            begin, self._serving = not self._serving, True
        self._added.set()
        if begin:
            threading.Thread(target=self._serve, name="rai-slurm", daemon=True).start()

    def remove(self, watch: SlurmWatch) -> None:
        with self._lock:
            self._watches.discard(watch)

    def _serve(self) -> None:
        while True:
            self._added.clear()  # before the look at what there is
            with self._lock:
                watches = tuple(self._watches)
                if not watches:
                    self._serving = False
                    return
            for watch in watches:
                if watch.due:
                    watch.look()
            self._added.wait(LOOK_S)


_WATCHED = _Watched()
