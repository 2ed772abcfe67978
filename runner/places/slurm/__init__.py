"""Slurm: runs as jobs of a cluster, on a file system that login node and nodes share.

The run's folder is the only channel: the worker reads its order there and claims the
run, and every event comes back in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from runner import files
from runner.core import Problem, Reason, Verdict
from runner.core.errors import RaiError, UsageError
from runner.core.needs import JobNeeds
from runner.core.order import Answer, Order, to_line
from runner.places.slurm import programs, queue
from runner.places.slurm.programs import NoAnswerError
from runner.places.slurm.watch import SlurmWatch, jobs_of
from runner.process.detached import Detached, python
from runner.slurm import asking, nodes, reasons, submitted, target
from runner.slurm.asking import Submission
from runner.slurm.jobs import NAME, JobStage, SlurmJob, stage
from runner.slurm.options import SlurmOptions
from runner.slurm.reasons import JobEnd
from runner.slurm.standing import RunFate, RunSigns, fate
from runner.slurm.target import SlurmTarget
from runner.store import claim, handed
from runner.store.claim import Standing
from runner.store.handed import HandedRun
from runner.store.paths import Home, RunPaths

WORKER = python("runner.worker.node")
DEFAULT, UNASKED = SlurmTarget(), SlurmOptions()
GONE = "rai's worker ended without a record"
STANDINGS = {
    RunFate.WAITS: Standing.WAITS,
    RunFate.LIVES: Standing.ELSEWHERE,
    RunFate.GONE: Standing.GONE,
}


class SlurmPlace:
    """A partition of the cluster; runs elsewhere in it are looked up alike."""

    name = target.PLACE

    def __init__(
        self,
        at: SlurmTarget = DEFAULT,
        options: SlurmOptions = UNASKED,
        worker: Sequence[str] = WORKER,
    ) -> None:
        """``worker`` is the command that carries a run out, given its folder."""
        self._target, self._options = at, options
        self._worker = tuple(worker)

    def check(self) -> list[Problem]:
        """Return why no run can be handed over from this machine."""
        return programs.absent()

    def start(self, order: Order, loading: Detached | None = None) -> SlurmWorker:
        """Return what submits a job for an order once its project is sealed."""
        return self.array([order])

    def array(self, orders: Sequence[Order]) -> SlurmWorker:
        """Return what submits an array of jobs for orders that have the same needs.

        They are carried out one after another, on one node.
        """
        needs = orders[0].needs
        if needs is None:
            raise UsageError("a run on Slurm says what it needs of a node")
        return SlurmWorker(self._target, self._options, self._worker, orders, needs)

    def look(self, runs: Iterable[RunPaths]) -> dict[str, Standing]:
        """Return of each run whether it goes on; Slurm is asked at most once."""
        return {paths.id: _standing(paths) for paths in runs}

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
        asked = queue.ask(_home(paths))
        if asked.trouble and not found.number:
            return  # whoever hands it over looks for the request
        if asked.trouble:
            raise NoAnswerError(f"{asked.trouble}; run {paths.id} ends when it begins")
        for job in jobs_of(asked.jobs, found):
            match stage(job.state):
                case JobStage.WAITING:
                    _cancel(found, job)
                case JobStage.GOING:
                    batch = [] if again else ["--signal=TERM", "--batch"]
                    _cancel(found, job, *batch)
        queue.forget(_home(paths))

    def follow(self, paths: RunPaths) -> SlurmWatch:
        """Return what keeps up to date why a run waits; its folder is its own."""
        return SlurmWatch(paths, _home(paths))

    def fetch_build(self, paths: RunPaths) -> None:
        """Do nothing: what there is of it is here."""

    def verdict(self, paths: RunPaths) -> Verdict | None:
        """Return how Slurm ended a run that left no record."""
        found = handed.read(paths)
        if found is None:
            return None
        begun = paths.events.exists()
        if paths.cancel.exists() and not begun:
            text = "stopped on request, before it began"
            return Verdict(True, False, None, Reason.CANCELLED, text)
        jobs = _jobs(paths, found)
        if jobs and stage(jobs[-1].state) is not JobStage.OVER:
            # The worker's end is known before Slurm has told of the job's.
            asked = queue.ask(_home(paths))
            jobs = None if asked.trouble else jobs_of(asked.jobs, found)
        if waits := [j for j in jobs or () if reasons.never_starts(j.reason)]:
            why = reasons.why_waits(waits[0].reason)
            text = f"Slurm would never start it: {why}"
            return Verdict(False, False, None, Reason.NOT_ALLOWED, text)
        number = f"Slurm's job {found.number}" if found.number else "Slurm"
        if jobs is None:
            text = f"{number}: {GONE}, and Slurm does not answer"
            return Verdict(False, False, None, Reason.RUNNER_LOST, text)
        if not jobs:
            text = (
                f"{number} is not known to Slurm any more"
                if found.number
                else "it was never handed to Slurm: the client ended before"
            )
            return Verdict(False, False, None, Reason.RUNNER_LOST, text)
        last = jobs[-1]
        match stage(last.state):
            case JobStage.OVER:
                end = reasons.how_ended(last.state, last.reason)
            case JobStage.WAITING:
                words = f"{GONE}, and its job waits again"
                end = JobEnd(Reason.RUNNER_LOST, words)
            case JobStage.GOING:
                end = JobEnd(Reason.RUNNER_LOST, GONE)
        where = f" on {last.node}" if last.node else ""
        text = f"{number}{where}: {end.words}"
        if not begun and end.reason is Reason.RUNNER_LOST:
            text += f"; no worker took the run: see {paths.worker_log}"
        served = end.reason is not Reason.RUNNER_LOST
        return Verdict(served, False, None, end.reason, text)

    def forget(self, paths: RunPaths) -> None:
        """Remove the jobs of a run that has ended, such as one that was requeued."""
        paths.order.unlink(missing_ok=True)
        if (found := handed.read(paths)) is None:
            return
        with suppress(RaiError):
            for job in _jobs(paths, found) or ():
                if stage(job.state) is not JobStage.OVER:
                    _cancel(found, job)


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
            error = submitted.failure(said, self._target, self._options)
            if not error.uncertain:
                for paths in runs:
                    paths.order.unlink(missing_ok=True)
                return Answer(error.problems, error.reason)
            raise error
        for paths, one in handing.items():
            task = "" if alone else f"_{one.task}"
            handed.write(paths, replace(one, number=f"{number}{task}"))
        queue.forget(_home(first))
        return Answer()

    def dismiss(self) -> None:
        """Do nothing: there is no job yet."""

    def _fitting(self) -> JobNeeds:
        """Return what to ask for: optional GPUs only where the partition has some."""
        needs = self._needs
        if not needs.gpu_optional or not needs.gpus:
            return needs
        partition = self._target.partition
        listed = programs.answer(nodes.listing(partition)).decode(errors="replace")
        some = any(node.gpus for node in nodes.nodes(listed, partition))
        return needs if some else replace(needs, gpus=0)


def _first_node(submission: Submission) -> str:
    """Return the node on which Slurm would start a job first, "" for any."""
    program, *words = submission.argv
    done = programs.call([program, "--test-only", *words], input=submission.script)
    return submitted.node(done.stderr.decode(errors="replace"))


def _standing(paths: RunPaths) -> Standing:
    """Return whether a run goes on: by its lock where that tells, else by Slurm."""
    here = claim.standing(paths)
    if here in (Standing.ALIVE, Standing.GONE):
        return here
    found = handed.read(paths)
    if found is None:
        return here
    home = _home(paths)
    asked = queue.look(home)
    jobs = None if asked.trouble else jobs_of(asked.jobs, found)
    if jobs and _never(jobs) and here is Standing.NOT_CLAIMED:
        return Standing.GONE
    handed_at, cancelled_at = map(handed.changed_s, (paths.handed, paths.cancel))
    signs = RunSigns(
        claimed=here is not Standing.NOT_CLAIMED,
        silent_s=handed.beat_age_s(paths, queue.now_s(home)),
        handed_s=asked.at - handed_at,
        withdrawn=bool(found.number) and handed_at < cancelled_at < asked.at,
    )
    return STANDINGS[fate(signs, jobs)]


def _never(jobs: Sequence[SlurmJob]) -> bool:
    waiting = [job for job in jobs if stage(job.state) is JobStage.WAITING]
    return len(waiting) == len(jobs) and all(
        reasons.never_starts(job.reason) for job in waiting
    )


def _jobs(paths: RunPaths, found: HandedRun) -> tuple[SlurmJob, ...] | None:
    asked = queue.look(_home(paths))
    return None if asked.trouble else jobs_of(asked.jobs, found)


def _cancel(found: HandedRun, job: SlurmJob, *how: str) -> None:
    """Cancel a job of a run, or send it the signal that ``how`` names."""
    # Without these words a number that was given out twice may name another's job. With
    # them scancel of Slurm 22.05 cancels all tasks of an array that wait, not the one.
    waits = found.task is not None and stage(job.state) is JobStage.WAITING
    named = [] if waits else [f"--name={found.name}", f"--user={os.geteuid()}"]
    programs.call(["scancel", *named, *how, job.number])


def _home(paths: RunPaths) -> Home:
    return Home(paths.root.parent.parent)
