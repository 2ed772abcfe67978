"""Submit the job of a run: its order goes to its folder, its worker to sbatch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from runner import files
from runner.core import Reason
from runner.core.errors import RaiError
from runner.core.needs import JobNeeds
from runner.core.order import Answer, Order, to_line
from runner.places.slurm import listed, programs, queue
from runner.slurm import asking, submitted, target
from runner.slurm.asking import Submission
from runner.slurm.jobs import NAME
from runner.slurm.options import SlurmOptions
from runner.slurm.target import SlurmTarget
from runner.store import handed
from runner.store.handed import HandedRun
from runner.store.paths import RunPaths


class SlurmWorker:
    """A worker to come: its order goes to the run's folder, its job to Slurm.

    Of several orders each is a task of one array of jobs.
    """

    def __init__(
        self,
        at: SlurmTarget,
        options: SlurmOptions,
        worker: Sequence[str],
        orders: Sequence[Order],
        needs: JobNeeds,
    ) -> None:
        self._target, self._options, self._worker = at, options, worker
        self._needs = needs
        self._orders = {RunPaths(Path(order.folder)): order for order in orders}

    def carry_out(self) -> Answer:
        """Submit the job; return once Slurm has it, or has refused it.

        Raises:
            RaiError: Slurm does not answer; it may have the job all the same.
        """
        first, *others = runs = list(self._orders)
        alone = not others
        handing = {
            paths: HandedRun(
                paths.id,
                target.PLACE,
                str(self._target),
                f"{NAME}{first.id}",
                task=None if alone else number,
                again=self._orders[paths].allowed is not None,
            )
            for number, paths in enumerate(runs, 1)
        }
        for paths, order in self._orders.items():
            handed.write(paths, handing[paths])
            # A job that was asked for before it was sealed waits for nothing.
            order = replace(order, sealed=True, needs=None)
            files.write(paths.order, to_line(order), private=True)
        submitting = partial(
            asking.submission,
            self._fitting(),
            self._options,
            self._target,
            run_id=first.id,
            folder=str(first.root),
            worker=(*self._worker, *([str(first.root)] if alone else [])),
            tasks=[] if alone else [str(paths.root) for paths in runs],
        )
        node = "" if alone else _first_node(submitting())
        submission = submitting(nodes=node)
        done = programs.call(submission.argv, input=submission.script)
        number = submitted.number(done.stdout.decode(errors="replace"))
        if done.exit_code or number is None:
            said = done.stderr.decode(errors="replace")
            error = submitted.failure(said, self._target, self._options, self._needs)
            if not error.uncertain:
                for paths in runs:
                    paths.order.unlink(missing_ok=True)
                if error.reason is not Reason.BUSY:  # it answers: nobody waits for long
                    self.withdraw()
                return Answer(error.problems, error.reason)
            raise error
        for paths, one in handing.items():
            task = "" if alone else f"_{one.task}"
            handed.write(paths, replace(one, number=f"{number}{task}"))
        queue.forget(first.home)
        return Answer()

    def withdraw(self) -> None:
        """Remove a job that Slurm may have, although it was not known to take it.

        A site's own sbatch may fail after it has submitted the job.
        """
        first = next(iter(self._orders))
        of_run = (f"--name={NAME}{first.id}", f"--user={os.geteuid()}")
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


def _first_node(submission: Submission) -> str:
    """Return the node on which Slurm would start a job first, "" for any."""
    program, *words = submission.argv
    done = programs.call([program, "--test-only", *words], input=submission.script)
    return submitted.node(done.stderr.decode(errors="replace"))
