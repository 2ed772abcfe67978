"""Slurm's programs, and what its queue says of this user's jobs.

They are started with little of this process's environment. The queue is asked once a
second by all processes: the answer is kept in RAI_HOME, so that any number of commands
that wait, and of runs that they wait for, cost the controller one query.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct, json
from msgspec.structs import replace

from runner import files, process
from runner.core import Problem, Reason
from runner.core.cancel import Cancel
from runner.core.errors import BusyError, EngineError, RaiError
from runner.places.slurm import jobs, submission
from runner.places.slurm.jobs import Partition, SlurmJob
from runner.process import Completed
from runner.store.paths import Home
from runner.store.scratch import alone

ANSWERS_WITHIN_S = 60.0
"""More than the patience of Slurm's programs, with their usual settings."""

NEEDED = ("sbatch", "squeue", "scancel", "sinfo")
MOST_LISTED_BYTES = 4 << 20
"""How much of sinfo's output is read at most."""

INTERVAL_S = 1.0
AWAY_S = 10.0
"""So long nobody asks again where the controller does not answer."""

SHARE = 10
"""A query that takes long is followed by a pause of so many times its length."""

REMEMBERED_S = 0.3
"""So long a process keeps an answer, and so may look at many runs."""

AWAITED_S = 0.05
MOST_BYTES = 64 << 20


class NoAnswerError(BusyError):
    """Slurm's controller does not answer."""

    def __init__(self, text: str) -> None:
        super().__init__(text, advice="Try again later; `scontrol ping` shows it.")


def check() -> None:
    """Raise EngineError (no_engine) if Slurm cannot be asked from this machine."""
    lacking = [name for name in NEEDED if shutil.which(name) is None]
    if lacking:
        text = f"Slurm's programs are not on this machine: {', '.join(lacking)}"
        problem = Problem(text, hint="run it on a login node of the cluster")
        raise EngineError(problem, reason=Reason.NO_ENGINE)


def call(
    argv: Sequence[str],
    *,
    input: bytes | None = None,
    cancel: Cancel | None = None,
    within_s: float = ANSWERS_WITHIN_S,
) -> Completed:
    """Run one of Slurm's programs, whatever its exit status.

    Raises:
        EngineError: it is not there (no_engine), or was cancelled.
        NoAnswerError: it does not end, as where the controller does not answer.
    """
    check()
    env = submission.environment(os.environ)
    try:
        return process.run(
            list(argv), input=input, timeout_s=within_s, env=env, cancel=cancel
        )
    except EngineError as error:
        if error.reason is Reason.CANCELLED:
            raise
        raise NoAnswerError(str(error)) from error


def answer(argv: Sequence[str], cancel: Cancel | None = None) -> bytes:
    """Return what one of Slurm's programs prints.

    Raises:
        NoAnswerError: it fails; carries what it said.
    """
    done = call(argv, cancel=cancel)
    if done.exit_code:
        text = done.stderr.decode(errors="replace").strip()
        last = jobs.shown(text.rpartition("\n")[2])
        why = last or f"exit status {done.exit_code}"
        raise NoAnswerError(f"Slurm does not answer: {why}")
    return done.stdout


def partition_of(name: str, cancel: Cancel | None = None) -> Partition | None:
    """Return what a partition allows, "" for the default one; None if it is not there.

    Raises:
        RaiError: Slurm does not answer.
    """
    name = name or os.environ.get("SBATCH_PARTITION", "")
    printed = answer(jobs.partition_listing(name), cancel)[:MOST_LISTED_BYTES]
    return jobs.partition(printed.decode(errors="replace"), name)


class QueueLook(Struct, frozen=True):
    """An answer of squeue: this user's jobs of runs, by their names.

    ``trouble`` says why there is none; the jobs are then those of the last answer.
    ``took_s`` is how long it took, ``at`` the file system's time before the query.
    """

    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    trouble: str = ""
    took_s: float = 0.0
    at: float = 0.0

    def of(self, name: str) -> tuple[SlurmJob, ...] | None:
        """Return the jobs of a name; None where Slurm does not answer."""
        return None if self.trouble else self.jobs.get(name, ())

    def fresh(self, now_s: float) -> bool:
        """Whether it need not be asked again; ``now_s`` is the file system's time."""
        pause_s = min(max(INTERVAL_S, SHARE * self.took_s), AWAY_S)
        return 0 <= now_s - self.at < (AWAY_S if self.trouble else pause_s)


_memory: dict[Home, tuple[QueueLook, float]] = {}
_lock = threading.Lock()


def look(home: Home) -> QueueLook:
    """Return the last answer; ask, if it is old and nobody else asks."""
    with _lock:
        known, read_s = _memory.get(home, (None, 0.0))
        if known is None or time.monotonic() - read_s > REMEMBERED_S:
            try:
                known = _looked(home)
            except OSError as error:  # read-only, full, or away: no run is lost for it
                known = QueueLook(trouble=files.problem(error).message)
            _memory[home] = known, time.monotonic()
    return known


def ask(home: Home) -> QueueLook:
    """Ask anew, and return an answer that knows all that was done before."""
    try:
        at = files.time_there(home.root)
    except OSError:  # read-only, or full
        at = time.time()
    found = _asked(home, at)
    with _lock:
        _memory.pop(home, None)
    return found


def forget(home: Home) -> None:
    """Discard the last answer, as after a change: the next look asks again."""
    home.slurm.unlink(missing_ok=True)
    with _lock:
        _memory.pop(home, None)


def _looked(home: Home) -> QueueLook:
    until = time.monotonic() + ANSWERS_WITHIN_S
    while True:
        kept = _read(home)
        if kept.fresh(files.time_there(home.root)):
            return kept
        with alone(home.slurm.with_name(f"{home.slurm.name}.lock")) as asks:
            if asks:
                kept, at = _read(home), files.time_there(home.root)
                return kept if kept.fresh(at) else _asked(home, at)
        # Another process asks. An empty answer would say that there are no jobs.
        if kept.at:
            return kept
        if time.monotonic() > until:
            return QueueLook(trouble="another process waits for Slurm's answer")
        time.sleep(AWAITED_S)


def _asked(home: Home, at: float) -> QueueLook:
    began = time.monotonic()
    try:
        named: dict[str, tuple[SlurmJob, ...]] = {}
        printed = answer(["squeue", *jobs.ARGUMENTS, f"--user={os.geteuid()}"])
        for job in jobs.parse(printed):
            if job.name.startswith(jobs.NAME):
                named[job.name] = (*named.get(job.name, ()), job)
        found = QueueLook(named, "", time.monotonic() - began, at)
    except (RaiError, ValueError) as error:
        wrong = isinstance(error, ValueError)
        why = f"Slurm's answer cannot be read: {error}" if wrong else str(error)
        found = replace(_read(home), trouble=why, at=at)
    with suppress(OSError):  # on a full disk each process asks by itself
        files.write(home.slurm, json.encode(found), private=True)
    return found


def _read(home: Home) -> QueueLook:
    try:
        data = files.read_below(home.root, home.slurm.name, MOST_BYTES)
        return json.decode(data, type=QueueLook)
    except (OSError, ValueError):
        return QueueLook()
