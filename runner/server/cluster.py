"""A server's cluster: its runs are jobs of Slurm, on a shared file system.

The folder of the runs has to be on that file system. Slurm places the jobs; whether it
answers is asked of sinfo every few seconds. While the controller is away nothing
starts, and what goes on is not touched.
"""

from __future__ import annotations

import shlex
import time

from msgspec.structs import replace

from runner import __version__, session
from runner.core import Problem, RunRequest
from runner.core.errors import ConfigError, RaiError
from runner.core.request import Answer
from runner.places import slurm as cluster
from runner.places.slurm import programs
from runner.server.workers import Executor
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


class SlurmCluster(Executor):
    """A partition of the cluster whose Slurm this machine has."""

    def __init__(self, home: Home, target: SlurmTarget, settings: Settings) -> None:
        super().__init__(home)
        self._target = target
        self._options, self._settings = settings.slurm, stored.variables(settings)
        self._node_gpus: int | None = None

    def start(self, paths: RunPaths, asked: RunRequest) -> Answer:
        """Submit a run's job; raise RaiError for words that sbatch does not have."""
        named = dict(asked.terms.slurm)
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

    def _due(self) -> bool:
        return time.monotonic() - self._ended_s >= FRESH_S

    def _survey(self) -> Capacity:
        """Return whether Slurm answers; the last GPUs stay where it does not."""
        problems: tuple[Problem, ...] = ()
        name = self._target.partition
        try:
            found = programs.partition_of(name)
            text = f"no partition {name}" if name else "no partitions"
            hint = "`sinfo` lists the partitions and their nodes"
            if found is None:
                problems = (Problem(f"Slurm has {text}", hint=hint),)
            self._node_gpus = found.gpus if found else None
        except RaiError as error:
            problems = error.problems[:1]
        return Capacity(
            __version__,
            () if problems else (str(self._target),),
            problems=problems,
            node_gpus=self._node_gpus,
            home=str(self._home.root),
        )
