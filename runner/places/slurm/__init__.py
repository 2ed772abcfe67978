"""Slurm: runs as jobs of a cluster, on a file system that login node and nodes share.

The run's folder is the only channel: the worker reads its order there and claims the
run, and every event comes back in it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from runner import files
from runner.core import Reason, RunRequest, Verdict
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.core.request import Answer, to_json
from runner.places.base import RunPlace, last_words
from runner.places.slurm import fate, programs, queue
from runner.places.slurm.fate import LeftRun, RunSigns
from runner.places.slurm.programs import NoAnswerError
from runner.places.slurm.watch import SlurmWatch
from runner.process.detached import python
from runner.slurm import submission, target
from runner.slurm.jobs import NAME, JobStage, SlurmJob, never_starts, stage
from runner.slurm.submission import JobNeeds
from runner.slurm.target import SlurmTarget
from runner.store import claim, handed
from runner.store.claim import Standing
from runner.store.handed import HandedRun
from runner.store.paths import RunPaths

WORKER = python("runner.worker.node")
WITHDRAWN_WITHIN_S = 5.0
"""A job that stays finds no folder of its run, and ends."""


class SlurmPlace(RunPlace):
    """The cluster whose Slurm this machine has."""

    def standing(self, paths: RunPaths) -> Standing:
        """Return whether a run goes on: by its lock where that tells, else by Slurm."""
        here = claim.standing(paths)
        if here in (Standing.ALIVE, Standing.GONE):
            return here
        found = handed.read(paths)
        if found is None:
            return here
        home = paths.home
        asked = queue.look(home)
        jobs = None if asked.trouble else asked.jobs.get(found.name, ())
        if jobs and _never(jobs) and here is Standing.NOT_CLAIMED:
            return Standing.GONE
        signs = RunSigns(
            claimed=here is not Standing.NOT_CLAIMED,
            silent_s=handed.beat_age_s(paths, queue.now_s(home)),
            handed_s=asked.at - handed.changed_s(paths.handed),
        )
        standing = fate.fate(signs, jobs)
        never_had = not jobs and not found.number and not signs.claimed
        if standing is Standing.GONE and never_had and found.again:
            return Standing.NOT_CLAIMED  # it can be handed over again
        return standing

    def cancel(self, paths: RunPaths) -> None:
        """Ask a run to end: a job that waits is removed, a worker gets SIGTERM.

        A second request ends the job however far its worker is.

        Raises:
            RaiError: Slurm does not answer; the worker finds the request by itself.
        """
        again = paths.cancel.exists()
        files.touch(paths.cancel)
        if (found := handed.read(paths)) is None:
            return
        asked = queue.ask(paths.home)
        if asked.trouble and not found.number:
            return  # whoever hands it over looks for the request
        if asked.trouble:
            raise NoAnswerError(f"{asked.trouble}; run {paths.id} ends when it begins")
        for job in asked.jobs.get(found.name, ()):
            match stage(job.state):
                case JobStage.WAITING:
                    _cancel(found, job)
                case JobStage.GOING:
                    batch = [] if again else ["--signal=TERM", "--batch"]
                    _cancel(found, job, *batch)
        queue.forget(paths.home)

    def follow(self, paths: RunPaths) -> SlurmWatch:
        """Return what keeps up to date why a run waits; its folder is its own."""
        return SlurmWatch(paths, paths.home)

    def verdict(self, paths: RunPaths) -> Verdict | None:
        """Return how Slurm ended a run that left no record."""
        found = handed.read(paths)
        if found is None:
            return None
        begun = paths.events.exists()
        if paths.cancel.exists() and not begun:
            return fate.CANCELLED
        jobs = _jobs(paths, found)
        if jobs and stage(jobs[-1].state) is not JobStage.OVER:
            # The worker's end is known before Slurm has told of the job's.
            asked = queue.ask(paths.home)
            jobs = None if asked.trouble else asked.jobs.get(found.name, ())
        log = str(paths.worker_log) if paths.worker_log.exists() else ""
        left = LeftRun(found.number, begun, log, last_words(paths))
        return fate.verdict(left, jobs)

    def forget(self, paths: RunPaths) -> None:
        """Remove the jobs of a run that has ended, such as one that was requeued."""
        paths.order.unlink(missing_ok=True)
        if (found := handed.read(paths)) is None:
            return
        with suppress(RaiError):
            for job in _jobs(paths, found) or ():
                if stage(job.state) is not JobStage.OVER:
                    _cancel(found, job)


def _never(jobs: Sequence[SlurmJob]) -> bool:
    waiting = [job for job in jobs if stage(job.state) is JobStage.WAITING]
    return len(waiting) == len(jobs) and all(
        never_starts(job.reason) for job in waiting
    )


def _jobs(paths: RunPaths, found: HandedRun) -> tuple[SlurmJob, ...] | None:
    asked = queue.look(paths.home)
    return None if asked.trouble else asked.jobs.get(found.name, ())


def _cancel(found: HandedRun, job: SlurmJob, *how: str) -> None:
    """Cancel a job of a run, or send it the signal that ``how`` names."""
    # Without its name a number that was given out twice may name another's job.
    named = (f"--name={found.name}", f"--user={os.geteuid()}")
    programs.call(["scancel", *named, *how, job.number])


class SlurmWorker:
    """A worker to come: what is asked goes to the run's folder, its job to Slurm."""

    def __init__(
        self,
        paths: RunPaths,
        at: SlurmTarget,
        asked: RunRequest,
        needs: JobNeeds,
        options: Sequence[str] = (),
        worker: Sequence[str] = WORKER,
    ) -> None:
        """``needs`` is what is asked for; ``options`` are words for sbatch.

        ``worker`` is the command that carries a run out, given its folder.
        """
        self._target, self._options, self._worker = at, options, worker
        self._paths, self._asked, self._needs = paths, asked, needs
        self._job = f"{NAME}{paths.id}"

    def carry_out(self, cancel: Cancel | None = None) -> Answer:
        """Submit the job; return once Slurm has it, or has refused it.

        Raises:
            RaiError: Slurm does not answer, or a ``cancel`` was requested meanwhile; it
                may have the job all the same.
        """
        paths, again = self._paths, self._asked.sent
        handing = HandedRun(
            paths.id, target.PLACE, str(self._target), self._job, again=again
        )
        handed.write(paths, handing)
        needs = self._fitting(cancel)
        files.write(paths.order, to_json(self._asked), private=True)
        asked = submission.submission(
            needs,
            self._options,
            self._target,
            run_id=paths.id,
            folder=str(paths.root),
            worker=(*self._worker, str(paths.root)),
        )
        done = programs.call(asked.argv, input=asked.script, cancel=cancel)
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
            argv = ["scancel", "--quiet", *of_run]
            programs.call(argv, within_s=WITHDRAWN_WITHIN_S)

    def _fitting(self, cancel: Cancel | None) -> JobNeeds:
        """Return what to ask for: what the partition allows, and has.

        Less time than the run may take is a warning of its parcel, and optional GPUs
        are asked for only where there are some.
        """
        needs, name = self._needs, self._target.partition
        if (found := programs.partition_of(name, cancel)) is None:
            return needs  # sbatch says what is wrong
        if needs.gpu_optional and not found.gpus:
            needs = replace(needs, gpus=0)
        if found.time_s is None or found.time_s >= needs.time_s:
            return needs
        most, wanted = map(submission.minutes, (found.time_s, needs.time_s))
        where = f"the partition {name}" if name else "the default partition"
        text = (
            f"Slurm ends this run after {most} min, the most in {where}; its limits,"
            f" with what rai itself needs, allow {wanted} min"
        )
        warnings = *self._asked.warnings, text
        self._asked = replace(self._asked, warnings=warnings)
        files.write(self._paths.parcel, to_json(self._asked.kept))
        return replace(needs, time_s=found.time_s)
