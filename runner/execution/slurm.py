"""Slurm: runs as jobs of a cluster, on a file system that login node and nodes share.

The run's folder is the only channel: the worker reads its order there and claims the
run, and every event comes back in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from runner.core import Reason, RunRequest, Verdict
from runner.core.addresses import SLURM, SlurmTarget
from runner.core.errors import Cancel, RaiError
from runner.core.request import Answer, to_json
from runner.core.wire import QueueState, RemoteRun
from runner.execution import slurm_jobs, slurm_programs
from runner.execution.local import Following, RunPlace, last_words
from runner.execution.slurm_jobs import NAME, JobStage, SlurmJob, stage, why_waits
from runner.execution.slurm_programs import ANSWERS_WITHIN_S, JobNeeds, NoAnswerError
from runner.store import claim, run_files
from runner.store.claim import Standing
from runner.store.paths import Home, RunPaths
from runner.store.run_files import SlurmSubmission
from runner.system import files
from runner.system.process import python

WORKER = python("runner.execution.node")
LOOK_S = 1.0
WITHDRAWN_WITHIN_S = 5.0
"""A job that stays finds no folder of its run, and ends."""


class SlurmPlace(RunPlace):
    """The cluster whose Slurm this machine has."""

    def standing(self, paths: RunPaths) -> Standing:
        """Return whether a run goes on: by its lock where that tells, else by Slurm."""
        here, found = claim.standing(paths), run_files.read_submission(paths)
        if found is None or here in (Standing.ALIVE, Standing.GONE):
            return here
        asked, claimed = (
            slurm_programs.look(paths.home),
            here is not Standing.NOT_CLAIMED,
        )
        listed = asked.of(found.name)
        standing = slurm_jobs.fate(
            listed,
            claimed=claimed,
            silent_s=run_files.beat_age_s(paths, asked.at),
            handed_s=asked.at - run_files.changed_s(paths.handed),
        )
        never_had = not (listed or found.number or claimed)
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
        if (found := run_files.read_submission(paths)) is None:
            return
        asked = slurm_programs.ask(paths.home)
        if asked.trouble and not found.number:
            return  # whoever hands it over looks for the request
        if asked.trouble:
            raise NoAnswerError(f"{asked.trouble}; run {paths.id} ends when it begins")
        for job in asked.jobs.get(found.name, ()):
            if (reached := stage(job.state)) is not JobStage.OVER:
                softly = reached is JobStage.GOING and not again
                how = ["--signal=TERM", "--batch"] if softly else []
                _cancel(found.name, *how, job.number)
        slurm_programs.forget(paths.home)

    def follow(self, paths: RunPaths) -> SlurmWatch:
        """Return what keeps up to date why a run waits; its folder is its own."""
        return SlurmWatch(paths)

    def verdict(self, paths: RunPaths) -> Verdict | None:
        """Return how Slurm ended a run that left no record."""
        if (found := run_files.read_submission(paths)) is None:
            return None
        begun = paths.events.exists()
        if paths.cancel.exists() and not begun:
            return slurm_jobs.CANCELLED
        listed = slurm_programs.look(paths.home).of(found.name)
        if listed and stage(listed[-1].state) is not JobStage.OVER:
            # The worker's end is known before Slurm has told of the job's.
            listed = slurm_programs.ask(paths.home).of(found.name)
        log = str(paths.worker_log) if paths.worker_log.exists() else ""
        said = last_words(paths)
        return slurm_jobs.verdict(listed, found.number, begun=begun, log=log, said=said)

    def forget(self, paths: RunPaths) -> None:
        """Remove the jobs of a run that has ended, such as one that was requeued."""
        paths.order.unlink(missing_ok=True)
        if (found := run_files.read_submission(paths)) is None:
            return
        with suppress(RaiError):
            for job in slurm_programs.look(paths.home).of(found.name) or ():
                if stage(job.state) is not JobStage.OVER:
                    _cancel(found.name, job.number)


def _cancel(name: str, *words: str, within_s: float = ANSWERS_WITHIN_S) -> None:
    """Call scancel for a run's job, by its name.

    A number alone that was given out twice may name another's job.
    """
    named = (f"--name={name}", f"--user={os.geteuid()}")
    slurm_programs.call(["scancel", *named, *words], within_s=within_s)


def hand_over(
    paths: RunPaths,
    target: SlurmTarget,
    asked: RunRequest,
    needs: JobNeeds,
    options: Sequence[str] = (),
    cancel: Cancel | None = None,
) -> Answer:
    """Submit the job of a sealed run; return once Slurm has it, or has refused it.

    ``options`` are words for sbatch.

    Raises:
        RaiError: Slurm does not answer, or a ``cancel`` was requested meanwhile; it may
            have the job all the same.
    """
    handing = SlurmSubmission(
        paths.id, SLURM, str(target), f"{NAME}{paths.id}", again=asked.sent
    )
    run_files.write_submission(paths, handing)
    needs, asked = _fitting(needs, target.partition, paths, asked, cancel)
    files.write(paths.order, to_json(asked), private=True)
    argv, script = slurm_programs.submission(
        needs,
        options,
        target,
        folder=str(paths.root),
        worker=(*WORKER, str(paths.root)),
    )
    done = slurm_programs.call(argv, input=script, cancel=cancel)
    number = slurm_programs.number(done.stdout.decode(errors="replace"))
    if number is not None and not done.exit_code:
        run_files.write_submission(paths, replace(handing, number=number))
        slurm_programs.forget(paths.home)
        return Answer()
    error = slurm_programs.failure(done.stderr.decode(errors="replace"))
    if isinstance(error, slurm_programs.UncertainError):
        raise error
    paths.order.unlink(missing_ok=True)
    if error.reason is not Reason.BUSY:  # it answers: nobody waits for long
        withdraw(paths)
    return Answer(error.problems, error.reason)


def withdraw(paths: RunPaths) -> None:
    """Remove a job that Slurm may have, although it was not known to take it.

    A site's own sbatch may fail after it has submitted the job.
    """
    with suppress(RaiError):
        _cancel(f"{NAME}{paths.id}", "--quiet", within_s=WITHDRAWN_WITHIN_S)


def _fitting(
    needs: JobNeeds,
    partition: str,
    paths: RunPaths,
    asked: RunRequest,
    cancel: Cancel | None,
) -> tuple[JobNeeds, RunRequest]:
    """Return what to ask for: what the partition allows, and has.

    Less time than the run may take is a warning of its parcel, and optional GPUs are
    asked for only where there are some.
    """
    if (found := slurm_programs.partition_of(partition, cancel)) is None:
        return needs, asked  # sbatch says what is wrong
    if needs.gpu_optional and not found.gpus:
        needs = replace(needs, gpus=0)
    if found.time_s >= needs.time_s:
        return needs, asked
    most, wanted = map(slurm_programs.minutes, (found.time_s, needs.time_s))
    where = f"the partition {partition}" if partition else "the default partition"
    text = (
        f"Slurm ends this run after {most} min, the most in {where}; its limits,"
        f" with what rai itself needs, allow {wanted} min"
    )
    asked = replace(asked, warnings=(*asked.warnings, text))
    files.write(paths.parcel, to_json(asked.kept))
    return replace(needs, time_s=found.time_s), asked


def run_of(paths: RunPaths, home: Home) -> tuple[RemoteRun, str]:
    """Return how a run stands, and why Slurm does not answer, "" if it does."""
    asked, handing = slurm_programs.look(home), run_files.read_submission(paths)
    found = asked.jobs.get(handing.name, ()) if handing else ()
    at, now = run_files.changed_s(paths.handed), time.time()
    claimed = claim.holder(paths) is not None
    return queued_run(paths.id, found, at, now, claimed=claimed), asked.trouble


def queued_run(
    run_id: str,
    listed: Sequence[SlurmJob],
    queued_at: float,
    now: float,
    *,
    claimed: bool,
) -> RemoteRun:
    """Return how a run stands, from its jobs.

    ``claimed`` is whether a worker runs it. Times are seconds since 1970.
    """
    why = "Slurm has not listed it yet"
    made = RemoteRun(run_id, QueueState.STARTING, "", queued_at, why=why)
    if listed:
        job = listed[-1]
        match stage(job.state):
            case JobStage.WAITING:
                state, why, soon_s = QueueState.WAITING, why_waits(job.reason), None
                if job.start_at is not None:
                    soon_s = max(0.0, round((job.start_at - now) / 10) * 10.0)
                made = replace(made, state=state, why=why, estimate_s=soon_s)
            case JobStage.GOING:
                why = f"Slurm has given it {job.node}" if job.node else ""
                made = replace(made, why=why, started_at=job.start_at)
            case JobStage.OVER:
                made = replace(made, why="Slurm has ended its job")
    return replace(made, state=QueueState.RUNNING, why="") if claimed else made


class SlurmWatch(Following):
    """Writes what a run waits for, as long as somebody watches it."""

    _last: RemoteRun | None = None
    _looked = False

    @property
    def settled(self) -> bool:
        """Whether the queue was looked at."""
        return self._looked or not self.thread.is_alive()

    def step(self) -> None:
        """Look at the queue; what fails is trouble, and passes."""
        try:
            found, self.trouble = run_of(self.paths, self.paths.home)
            if found != self._last:
                run_files.write_seen(self.paths, found)
            self._last = found
        except (OSError, RaiError) as error:
            self.trouble = str(error)
        self._looked = True
        self.stopped.wait(LOOK_S)
