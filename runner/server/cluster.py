"""A server's cluster: its runs are jobs of Slurm, on a shared file system.

The folder of the runs has to be on that file system. Slurm places the jobs; whether it
answers is asked of sinfo every few seconds. While the controller is away nothing
starts, and what goes on is not touched.
"""

from __future__ import annotations

import shlex
import shutil
import threading
import time
from collections.abc import Mapping

from msgspec.structs import replace

from runner import __version__, session
from runner.core import Problem, RunRequest
from runner.core.errors import ConfigError, RaiError
from runner.core.request import Answer
from runner.places import slurm as cluster
from runner.places.slurm import programs
from runner.scheduling.decision import RunStatus
from runner.server.workers import keep
from runner.session import Options
from runner.session.slurm import needs_of
from runner.store import settings as stored
from runner.store.paths import Home, RunPaths
from runner.store.settings import Settings
from runner.wire import addresses
from runner.wire.addresses import SlurmTarget
from runner.wire.capacity import Capacity

FRESH_S = 5.0
PARTITION = "partition"


class SlurmCluster:
    """A partition of the cluster whose Slurm this machine has."""

    def __init__(self, home: Home, target: SlurmTarget, settings: Settings) -> None:
        self._home, self._target = home, target
        self._options, self._settings = settings.slurm, stored.variables(settings)
        self._gpus: int | None = None
        self._found: Capacity | None = None
        self._looking = threading.Lock()
        self._next_s = float("-inf")

    def capacity(self) -> Capacity | None:
        """Return whether Slurm answers; None before the first look is over."""
        if time.monotonic() >= self._next_s and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="rai-slurm", daemon=True).start()
        free = shutil.disk_usage(self._home.root).free
        return self._found and replace(self._found, disk_free=free)

    def start(
        self, paths: RunPaths, asked: RunRequest, slurm: Mapping[str, str]
    ) -> Answer:
        """Submit a run's job; raise RaiError for words that sbatch does not have."""
        named = dict(slurm)
        target = SlurmTarget(named.pop(PARTITION, self._target.partition))
        written = shlex.join(f"--{name}={value}" for name, value in named.items())
        if (words := addresses.sbatch_words(written)) is None and named:
            raise ConfigError(f"sbatch is not given {written[:200]!r}")
        # Nothing of this process's environment says on the node what it does here.
        settings = {**self._settings, "RAI_HOME": str(self._home.root)}
        if asked.engine:
            settings["RAI_ENGINE"] = asked.engine
        asked = replace(asked, terms=replace(asked.terms, settings=settings))
        # No role bounds cores or whole nodes: the site's settings say how many cores.
        prepared = session.opened(paths, asked, Options(engine=asked.engine or None))
        needs = replace(needs_of(prepared), cores=None, alone=False)
        options = (*self._options, *(words or ()))
        return cluster.hand_over(paths, target, asked, needs, options)

    def failed(self, run: RunStatus) -> None:
        """Do nothing: the GPUs are Slurm's, and the run says what happened."""

    def _look(self) -> None:
        problem: Problem | None = None
        try:
            name = self._target.partition
            found = programs.partition_of(name)
            text = f"no partition {name}" if name else "no partitions"
            hint = "`sinfo` lists the partitions and their nodes"
            problem = None if found else Problem(f"Slurm has {text}", hint=hint)
            self._gpus = found.gpus if found else None
        except RaiError as error:
            problem = error.problems[0]
        finally:
            seen = Capacity(
                __version__,
                () if problem else (str(self._target),),
                problems=(problem,) if problem else (),
                node_gpus=self._gpus,
                home=str(self._home.root),
            )
            keep(self._home, seen)
            self._found = seen
            self._next_s = time.monotonic() + FRESH_S
            self._looking.release()
