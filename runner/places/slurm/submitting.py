"""Submit the job of a run: its order goes to its folder, its worker to sbatch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from runner import files
from runner.core import Reason
from runner.core.errors import RaiError
from runner.core.needs import JobNeeds
from runner.core.order import Answer, Order, to_line
from runner.places.slurm import listed, programs, queue
from runner.slurm import submission, target
from runner.slurm.jobs import NAME
from runner.slurm.target import SlurmTarget
from runner.store import handed
from runner.store.handed import HandedRun
from runner.store.paths import RunPaths


class SlurmWorker:
    """A worker to come: its order goes to the run's folder, its job to Slurm."""

    def __init__(
        self,
        at: SlurmTarget,
        options: Sequence[str],
        worker: Sequence[str],
        order: Order,
        needs: JobNeeds,
    ) -> None:
        self._target, self._options, self._worker = at, options, worker
        self._order, self._needs = order, needs
        self._paths = RunPaths(Path(order.folder))
        self._job = f"{NAME}{self._paths.id}"

    def carry_out(self) -> Answer:
        """Submit the job; return once Slurm has it, or has refused it.

        Raises:
            RaiError: Slurm does not answer; it may have the job all the same.
        """
        paths, again = self._paths, self._order.allowed is not None
        handing = HandedRun(
            paths.id, target.PLACE, str(self._target), self._job, again=again
        )
        handed.write(paths, handing)
        # A job that was asked for before it was sealed waits for nothing.
        order = replace(self._order, sealed=True, needs=None)
        files.write(paths.order, to_line(order), private=True)
        asked = submission.submission(
            self._fitting(),
            self._options,
            self._target,
            run_id=paths.id,
            folder=str(paths.root),
            worker=(*self._worker, str(paths.root)),
        )
        done = programs.call(asked.argv, input=asked.script)
        number = submission.number(done.stdout.decode(errors="replace"))
        if done.exit_code or number is None:
            said = done.stderr.decode(errors="replace")
            error = submission.failure(said)
            if error.uncertain:
                raise error
            paths.order.unlink(missing_ok=True)
            if error.reason is not Reason.BUSY:  # it answers: nobody waits for long
                self.withdraw()
            return Answer(error.problems, error.reason)
        handed.write(paths, replace(handing, number=number))
        queue.forget(paths.home)
        return Answer()

    def withdraw(self) -> None:
        """Remove a job that Slurm may have, although it was not known to take it.

        A site's own sbatch may fail after it has submitted the job.
        """
        of_run = (f"--name={self._job}", f"--user={os.geteuid()}")
        with suppress(RaiError):
            programs.call(["scancel", "--quiet", *of_run])

    def dismiss(self) -> None:
        """Do nothing: there is no job yet."""

    def _fitting(self) -> JobNeeds:
        """Return what to ask for: optional GPUs only where the partition has some."""
        needs = self._needs
        if not needs.gpu_optional or not needs.gpus:
            return needs
        some = any(node.gpus for node in listed.nodes_of(self._target.partition))
        return needs if some else replace(needs, gpus=0)
