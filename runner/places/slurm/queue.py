"""What Slurm's queue says of this user's jobs, asked once a second by all processes.

The answer is kept in RAI_HOME, so that any number of commands that wait, and of runs
that they wait for, cost the controller one query.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct, json
from msgspec.structs import replace

from runner import files
from runner.core.errors import RaiError
from runner.places.slurm import programs
from runner.places.slurm.programs import NoAnswerError
from runner.slurm import jobs
from runner.slurm.jobs import SlurmJob
from runner.store.paths import Home

INTERVAL_S = 1.0
AWAY_S = 10.0
"""So long nobody asks again where the controller does not answer."""

SHARE = 10
"""A query that takes long is followed by a pause of so many times its length."""

REMEMBERED_S = 0.3
"""So long a process keeps an answer, and so may look at many runs."""

AWAITED_S = 0.05
CLOCK_S = 30.0
MOST_BYTES = 64 << 20


class QueueLook(Struct, frozen=True):
    """An answer of squeue: this user's jobs of runs, by their names.

    ``trouble`` says why there is none; the jobs are then those of the last answer.
    ``took_s`` is how long it took, ``at`` the file system's time before the query.
    """

    jobs: dict[str, tuple[SlurmJob, ...]] = {}
    trouble: str = ""
    took_s: float = 0.0
    at: float = 0.0

    def fresh(self, now_s: float) -> bool:
        """Whether it need not be asked again; ``now_s`` is the file system's time."""
        pause_s = min(max(INTERVAL_S, SHARE * self.took_s), AWAY_S)
        return 0 <= now_s - self.at < (AWAY_S if self.trouble else pause_s)


_memory: dict[Home, tuple[QueueLook, float]] = {}
_clocks: dict[Home, tuple[float, float]] = {}
"""The time of a home's file system, and this process's monotonic time then."""

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


def now_s(home: Home) -> float:
    """Return the file system's present time, as it was measured a short while ago.

    It is this machine's where nothing can be written there.
    """
    with _lock:
        there_s, read_s = _clocks.get(home, (0.0, float("-inf")))
        if time.monotonic() - read_s > CLOCK_S:
            try:
                there_s = files.time_there(home.root)
            except OSError:
                there_s = time.time()
            read_s = time.monotonic()
            _clocks[home] = there_s, read_s
    return there_s + time.monotonic() - read_s


def ask(home: Home) -> QueueLook:
    """Ask anew, and return an answer that knows all that was done before."""
    found = _asked(home, now_s(home))
    with _lock:
        _memory.pop(home, None)
    return found


def forget(home: Home) -> None:
    """Discard the last answer, as after a change: the next look asks again."""
    home.slurm.unlink(missing_ok=True)
    with _lock:
        _memory.pop(home, None)


def _looked(home: Home) -> QueueLook:
    until = time.monotonic() + programs.ANSWERS_WITHIN_S
    while True:
        kept = _read(home)
        if kept.fresh(files.time_there(home.root)):
            return kept
        with _alone(home) as alone:
            if alone:
                kept, now = _read(home), files.time_there(home.root)
                return kept if kept.fresh(now) else _asked(home, now)
        # Another process asks. An empty answer would say that there are no jobs.
        if kept.at:
            return kept
        if time.monotonic() > until:
            return QueueLook(trouble="another process waits for Slurm's answer")
        time.sleep(AWAITED_S)


def _asked(home: Home, now: float) -> QueueLook:
    began = time.monotonic()
    try:
        named: dict[str, tuple[SlurmJob, ...]] = {}
        for job in _jobs():
            if job.name.startswith(jobs.NAME):
                named[job.name] = (*named.get(job.name, ()), job)
        found = QueueLook(named, "", time.monotonic() - began, now)
    except RaiError as error:
        found = replace(_read(home), trouble=str(error), at=now)
    with suppress(OSError):  # on a full disk each process asks by itself
        files.write(home.slurm, json.encode(found), private=True)
    return found


def _jobs() -> tuple[SlurmJob, ...]:
    words = ["squeue", *jobs.ARGUMENTS, f"--user={os.geteuid()}"]
    try:
        return jobs.parse(programs.answer(words))
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
