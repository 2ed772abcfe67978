"""What Slurm's queue says of this user's jobs, asked once an interval by all processes.

The answer is kept in RAI_HOME, so that any number of commands that wait, and of runs
that they wait for, cost the controller one query.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from msgspec import Struct, json
from msgspec.structs import replace

from runner import files
from runner.places.slurm import programs
from runner.places.slurm.programs import NoAnswerError
from runner.slurm import jobs
from runner.slurm.jobs import JobStage, SlurmJob, stage
from runner.store.paths import Home

INTERVAL_S = 1.0
AWAY_S = 10.0
"""So long nobody asks again where the controller does not answer."""

SHARE = 10
"""Queries that take long are followed by a pause of so many times their length."""

MOST_PAUSE_S = 10.0

PENDING_S = 30.0
"""So often the whole queue is asked for, to learn how many jobs come before."""

REMEMBERED_S = 0.3
AWAITED_S = 0.05
CLOCK_S = 30.0
MOST_BYTES = 64 << 20


class QueueLook(Struct, frozen=True):
    """An answer of squeue: this user's jobs of runs, by their names.

    ``trouble`` says why there is none; the jobs are then those of the last answer.
    ``took_s`` is how long it took, ``before_s`` how long the one before. ``ahead`` is,
    by the number of a job that waits, how many jobs of its partition come before it, as
    of ``ahead_at``. ``at`` is the file system's time, before the query.
    """

    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    trouble: str = ""
    took_s: float = 0.0
    before_s: float = 0.0
    ahead: dict[str, int] = {}
    ahead_at: float = 0.0
    at: float = 0.0

    def fresh(self, now_s: float) -> bool:
        """Whether it need not be asked again; ``now_s`` is the file system's time."""
        # A controller that starts anew makes one query wait.
        usual_s = min(self.took_s, self.before_s)
        pause_s = min(max(INTERVAL_S, SHARE * usual_s), MOST_PAUSE_S)
        return 0 <= now_s - self.at < (AWAY_S if self.trouble else pause_s)


class _Remembered(Struct, frozen=True):
    look: QueueLook
    read_s: float


class _Clock(Struct, frozen=True):
    there_s: float
    read_s: float


_memory: dict[Home, _Remembered] = {}
_clocks: dict[Home, _Clock] = {}
_memory_lock = threading.Lock()


def look(home: Home) -> QueueLook:
    """Return the last answer; ask, if it is old and nobody else asks.

    It is read anew after a while only, so that one process may ask for many runs.
    """
    with _memory_lock:
        known = _memory.get(home)
        if known is None or time.monotonic() - known.read_s > REMEMBERED_S:
            known = _Remembered(_looked_at(home), time.monotonic())
            _memory[home] = known
    return known.look


def now_s(home: Home) -> float:
    """Return the file system's present time, as it was measured a short while ago.

    It is this machine's where nothing can be written there.
    """
    with _memory_lock:
        clock = _clocks.get(home)
        if clock is None or time.monotonic() - clock.read_s > CLOCK_S:
            try:
                there_s = files.time_there(home.root)
            except OSError:
                there_s = time.time()
            clock = _Clock(there_s, time.monotonic())
            _clocks[home] = clock
    return clock.there_s + time.monotonic() - clock.read_s


def _looked_at(home: Home) -> QueueLook:
    try:
        return _looked(home)
    except OSError as error:  # it is read-only, full, or away: no run is lost for that
        return QueueLook(trouble=files.problem(error).message)


def _looked(home: Home) -> QueueLook:
    until = time.monotonic() + programs.ANSWERS_WITHIN_S
    while True:
        kept = _read(home)
        if kept.fresh(files.time_there(home.root)):
            return kept
        with _alone(home) as alone:
            if alone:
                kept = _read(home)
                now_s = files.time_there(home.root)
                return kept if kept.fresh(now_s) else _kept(home, _asked(kept, now_s))
        # Another process asks. An empty answer would say that there are no jobs.
        if kept.at:
            return kept
        if time.monotonic() > until:
            return QueueLook(trouble="another process waits for Slurm's answer")
        time.sleep(AWAITED_S)


def ask(home: Home) -> QueueLook:
    """Ask anew, and return an answer that knows all that was done before."""
    found = _kept(home, _asked(_read(home), now_s(home)))
    with _memory_lock:
        _memory.pop(home, None)
    return found


def _kept(home: Home, found: QueueLook) -> QueueLook:
    with suppress(OSError):  # on a full disk each process asks by itself
        files.write(home.slurm, json.encode(found), private=True)
    return found


def forget(home: Home) -> None:
    """Discard the last answer, as after a change: the next look asks again."""
    home.slurm.unlink(missing_ok=True)
    with _memory_lock:
        _memory.pop(home, None)


def _asked(kept: QueueLook, now_s: float) -> QueueLook:
    began = time.monotonic()
    try:
        mine = _jobs(f"--user={os.geteuid()}")
        named: dict[str, list[SlurmJob]] = {}
        for job in mine:
            if job.name.startswith(jobs.NAME):
                named.setdefault(job.name, []).append(job)
    except NoAnswerError as error:
        trouble, took_s = str(error), time.monotonic() - began
        return replace(kept, trouble=trouble, took_s=took_s, at=now_s)
    found = {name: tuple(some) for name, some in named.items()}
    took_s = time.monotonic() - began
    ahead, at = _ahead(named, kept, now_s)
    return QueueLook(found, "", took_s, kept.took_s, ahead, at, now_s)


def _ahead(
    named: Mapping[str, list[SlurmJob]], kept: QueueLook, now_s: float
) -> tuple[dict[str, int], float]:
    """Return how many jobs come before those that wait; asked for now and then."""
    waiting = [
        job
        for some in named.values()
        for job in some
        if stage(job.state) is JobStage.WAITING
    ]
    if not waiting or 0 <= now_s - kept.ahead_at < PENDING_S:
        return kept.ahead, kept.ahead_at
    partitions = ",".join(sorted({job.partition for job in waiting}))
    try:
        every = _jobs("--states=PENDING", f"--partition={partitions}")
    except NoAnswerError:
        # Others may have more jobs there than are read: that is no one's run's fault.
        return {}, now_s
    ranks: dict[str, list[int]] = {}
    for job in every:
        ranks.setdefault(job.partition, []).append(job.priority)
    return {
        job.number: sum(one > job.priority for one in ranks.get(job.partition, ()))
        for job in waiting
    }, now_s


def _jobs(*words: str) -> tuple[SlurmJob, ...]:
    printed = programs.answer(["squeue", *jobs.ARGUMENTS, *words])
    try:
        return jobs.parse(printed)
    except ValueError as error:
        raise NoAnswerError(f"Slurm's answer cannot be read: {error}") from error


def _read(home: Home) -> QueueLook:
    try:
        data = files.read_below(home.root, home.slurm.name, MOST_BYTES)
        return json.decode(data, type=QueueLook)
    except (OSError, ValueError):
        return QueueLook()


@contextmanager
def _alone(home: Home) -> Iterator[bool]:
    """Hold the right to ask; yield False where another process has it."""
    name = home.slurm.with_name(f"{home.slurm.name}.lock")
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # a file system without locks: each process asks by itself
        yield True
    finally:
        os.close(handle)
