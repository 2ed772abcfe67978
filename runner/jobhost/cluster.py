"""The cluster of a job host: its runs are jobs of Slurm, on a shared file system.

The host's home folder has to be on that file system. Slurm places the jobs; whether it
answers is asked of sinfo every few seconds. While the controller is away nothing
starts, and what goes on is not touched.
"""

from __future__ import annotations

import shlex
import shutil
import threading
import time
from pathlib import Path

from msgspec.structs import replace

from runner import __version__, places, session
from runner.core import Problem
from runner.core.errors import ConfigError, RaiError
from runner.core.order import Order
from runner.core.variables import Secrets
from runner.places import Worker
from runner.places.slurm import SlurmWorker, programs, watch
from runner.session.slurm import needs_of
from runner.slurm import target as targets
from runner.slurm.partition import Partition
from runner.slurm.submission import JobNeeds
from runner.slurm.target import SlurmTarget
from runner.store import claim
from runner.store import settings as stored
from runner.store.paths import Home, RunPaths
from runner.store.settings import Settings
from runner.wire.host import HostFacts, HostRun, StartRun
from runner.wire.remote_runs import QueueState

FRESH_S = 5.0
ENGINE = "RAI_ENGINE"
PARTITION = "partition"


class SlurmCluster:
    """A partition of the cluster whose Slurm this machine has."""

    def __init__(self, home: Home, target: SlurmTarget, settings: Settings) -> None:
        self._home, self._target = home, target
        self._options, self._settings = settings.slurm, stored.variables(settings)
        self._seen: Partition | None = None
        self._problem: Problem | None = None
        self._first = threading.Event()
        self._looking = threading.Lock()
        self._next_s = float("-inf")

    def facts(self) -> HostFacts:
        """Return whether Slurm answers; only the first call waits for that."""
        if time.monotonic() >= self._next_s and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="rai-slurm", daemon=True).start()
        self._first.wait()
        problem, seen = self._problem, self._seen
        return HostFacts(
            __version__,
            () if problem else (str(self._target),),
            problems=(problem,) if problem else (),
            disk_free=shutil.disk_usage(self._home.root).free,
            node_gpus=seen.gpus if seen else None,
            home=str(self._home.root),
        )

    def worker(self, order: Order, request: StartRun) -> Worker:
        """Return what submits a run's job; raise RaiError for words sbatch has not."""
        asked = dict(request.slurm)
        target = SlurmTarget(asked.pop(PARTITION, self._target.partition))
        written = shlex.join(f"--{name}={value}" for name, value in asked.items())
        if (words := targets.words(written)) is None and asked:
            raise ConfigError(f"sbatch is not given {written[:200]!r}")
        # Nothing of this process's environment says on the node what it does here.
        order = replace(order, settings={**self._settings, **order.settings})
        options = (*self._options, *(words or ()))
        return SlurmWorker(target, order, _needs(order), options)

    def waits(self, paths: RunPaths) -> HostRun:
        """Return a run that Slurm has, with what it waits for in words."""
        found, trouble = watch.run_of(paths, self._home)
        why = trouble or found.why or "Slurm has it"
        if found.state is QueueState.WAITING and not trouble:
            why = f"in Slurm's queue: {why}"
        return HostRun(paths.id, claimed=False, ended=False, waits=why)

    def node(self, paths: RunPaths) -> str:
        """Return "": Slurm sees to the nodes."""
        return ""

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; a worker is asked once, since Slurm would kill it."""
        if not paths.cancel.exists() or claim.holder(paths) is None:
            places.cancel(paths)

    def failed(self, run: HostRun) -> None:
        """Do nothing: the GPUs are Slurm's, and the run says what happened."""

    def clear(self, name: str) -> None:
        """Do nothing: no GPU is out."""

    def _look(self) -> None:
        try:
            name = self._target.partition
            found = programs.partition_of(name)
            text = f"no partition {name}" if name else "no partitions"
            hint = "`sinfo` lists the partitions and their nodes"
            self._problem = None if found else Problem(f"Slurm has {text}", hint=hint)
            self._seen = found
        except RaiError as error:
            self._problem = error.problems[0]
        finally:
            self._next_s = time.monotonic() + FRESH_S
            self._first.set()
            self._looking.release()


def _needs(order: Order) -> JobNeeds:
    """Return what a sealed run needs; raise RaiError if it may not run.

    No role bounds cores or whole nodes: the site's settings say how many cores.
    """
    options = session.Options(
        engine=order.settings.get(ENGINE),
        secrets=Secrets(order.secrets),
        allowed=order.allowed,
    )
    paths = RunPaths(Path(order.folder))
    prepared = session.reopen(paths, options, text=order.spec_text)
    return replace(needs_of(prepared), cores=None, alone=False)
