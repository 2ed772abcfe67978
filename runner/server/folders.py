"""The folders of a server's runs: begin a run once, and see what became of each.

A folder gets its name when its files are whole, and its worker claims it before
anything else. A folder that nobody claimed is claimed and removed before another is
made, so that a worker that comes late finds it taken. So a run is run once, however
often it is asked for and whoever is killed meanwhile.

Few bytes are read for each look, and the end of a worker is learnt at once: the kernel
tells by its pidfd, whichever server started it.
"""

from __future__ import annotations

import errno
import os
import secrets
import select
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, json

from runner.core import GpuUse, Reason, RunRecord, RunRequest, State, Verdict
from runner.core import events as ev
from runner.core.errors import BusyError, RaiError, UsageError
from runner.core.request import Answer, to_json
from runner.core.wire import Capacity, QueueState
from runner.execution import places
from runner.server.decision import RunStatus
from runner.server.workers import Executor
from runner.store import claim, removal, runs
from runner.store.claim import Claim, ClaimedError, Standing
from runner.store.home import newest
from runner.store.paths import Home, RunPaths
from runner.store.runs import Tail
from runner.system import files, machine, trees

READABLE = (
    "events.jsonl",
    "stdout.log",
    "stderr.log",
    "latest.json",
    "record.json",
    "spec.yml",
    "parcel.json",
    "source.tar.zst",
    "build.tar.zst",
)
"""The files of a run's folder that clients may have."""

PASSING = (
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
    *(errno.EIO, errno.ESTALE, errno.ETIMEDOUT),  # a network's file system is away
)
"""Errors that say nothing of the file."""

ASIDE = ".new."
MOST_BROKEN = 100
MOST_LINES = 10_000
"""So many events of a run are read at each look."""

MOST_KEPT = 4096
"""How many ended runs are remembered."""

_SKIPPED = b'"event":"Output"'


class ServerRuns:
    """The runs of one home folder, which an executor begins.

    ``ended`` is called, from another thread, as soon as a worker has ended. Everything
    here may be called from any thread.
    """

    def __init__(self, home: Home, executor: Executor) -> None:
        """Remove what a server that was killed had begun to write."""
        self.ended: Callable[[], None] = lambda: None
        self._home, self._executor = home, executor
        self._changed = threading.Condition()
        self._under_way: set[str] = set()
        self._cancelled: set[str] = set()
        self._lock = threading.Lock()
        self._ended: dict[str, tuple[int, RunStatus]] = {}
        self._active: dict[str, _Followed] = {}
        home.runs.mkdir(mode=0o700, exist_ok=True)
        left = [path.name for path in home.runs.glob(f"{ASIDE}*")]
        removal.discard(home.runs, *left)
        for paths in map(home.run, runs.names(home)):
            _is_known(paths)
            if not paths.record.exists():
                self._active[paths.id] = _Followed(paths)
        removal.empty(home.runs)

        def broke_a_gpu(run: RunRecord) -> bool:
            return run.verdict is not None and run.verdict.reason is Reason.GPU_ERROR

        # A run may have broken its GPU while there was no server.
        self.look([run.id for run in newest(home, broke_a_gpu, MOST_BROKEN)])

    def capacity(self) -> Capacity | None:
        """Return what can run now; None before the first look is over."""
        return self._executor.capacity()

    def start(self, run_id: str, asked: RunRequest, source: Path) -> Answer:
        """Start a run of a packed project, unless it was begun before.

        Return once it has its engine and a plan for its image; a refused one goes.

        Raises:
            NotBegunError: its worker ended before it claimed the run.
            BusyError: the disk is full, or no worker can be started now.
            RaiError: it cannot be started.
        """
        # A run that ended since the last look may have broken its GPU.
        self.look(tuple(self._active))
        paths = self._home.run(run_id)
        with self._alone(run_id):
            if _is_known(paths):
                return Answer()
            try:
                self._lay_out(paths, asked, source)
            except OSError as error:
                # Later there may be room again.
                raise BusyError(files.problem(error)) from error
            if run_id in self._cancelled:
                places.of(paths).cancel(paths)
            try:
                answer = self._executor.start(paths, asked)
            except RaiError:
                if not _is_known(paths):
                    raise
                answer = Answer()
            if answer.reason is not None:
                removal.discard(self._home.runs, run_id)
                removal.empty(self._home.runs)
        self.look([run_id])
        return answer

    def look(self, ids: Iterable[str]) -> dict[str, RunStatus]:
        """Return what is known of runs; one without a folder is left out."""
        with self._lock:
            wanted = list(dict.fromkeys(ids))
            found = {run_id: self._one(run_id) for run_id in wanted}
            if gone := [i for i, one in found.items() if one == _gone(i)]:
                places.open_home(self._home.root)  # which makes their records
                found |= {run_id: self._lost(run_id) for run_id in gone}
            return {run_id: one for run_id, one in found.items() if one}

    def cancel(self, run_id: str) -> None:
        """Ask a run to end; raise UsageError if there is none."""
        paths = self._home.run(run_id)
        with self._changed:
            if starting := run_id in self._under_way:
                self._cancelled.add(run_id)
        # Slurm would kill a worker that is asked a second time.
        if paths.cancel.exists() and claim.holder(paths) is not None:
            return
        try:
            places.of(paths).cancel(paths)
        except FileNotFoundError:
            if not starting:
                raise UsageError(f"no run {run_id}") from None

    def paths(self, run_id: str) -> RunPaths:
        """Return the paths of a run's folder."""
        return self._home.run(run_id)

    def open(self, run_id: str, name: str) -> BinaryIO | None:
        """Open one of the files READABLE; None if there is none.

        Raises:
            BusyError: it may be there, and cannot be opened at this moment.
        """
        if name not in READABLE:
            return None
        try:
            return files.open_below(self._home.run(run_id).root, name)
        except OSError as error:
            if error.errno in PASSING:
                raise BusyError(files.problem(error)) from error
            return None

    def remove(self, ids: Sequence[str]) -> None:
        """Remove the folders of runs that have ended."""
        ended = [one.id for one in self.look(ids).values() if one.ended]
        removal.discard(self._home.runs, *ended)
        removal.empty(self._home.runs)

    @contextmanager
    def _alone(self, run_id: str) -> Iterator[None]:
        """Wait for another start of the same run."""
        with self._changed:
            self._changed.wait_for(lambda: run_id not in self._under_way)
            self._under_way.add(run_id)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(run_id)
                self._cancelled.discard(run_id)
                self._changed.notify_all()

    def _lay_out(self, paths: RunPaths, asked: RunRequest, source: Path) -> None:
        """Make a run's folder, which has its name once it has its files."""
        name = f"{ASIDE}{paths.id}.{secrets.token_hex(4)}"
        new = RunPaths(paths.root.with_name(name))
        new.root.mkdir(mode=0o770 if removal.is_shared(paths.root.parent) else 0o700)
        try:
            with files.naming(new.source):
                shutil.copyfile(source, new.source)
            files.write(new.parcel, to_json(asked.kept))
            new.root.rename(paths.root)
        except BaseException:
            with suppress(OSError):
                trees.remove(new.root)
            raise

    def _one(self, run_id: str) -> RunStatus | None:
        paths = self._home.run(run_id)
        if run_id in self._under_way:
            return RunStatus(run_id)
        if (ended := self._of_record(paths)) is not None:
            return ended
        match places.standing(paths):
            case Standing.NOT_CLAIMED if not paths.root.is_dir():
                self._active.pop(run_id, None)
                return None
            case Standing.NOT_CLAIMED:
                return RunStatus(run_id)
            case Standing.WAITS:
                return _in_slurm(paths, self._home)
            case Standing.GONE:
                # It may have ended just now, after its record was looked for.
                return self._of_record(paths) or _gone(run_id)
        followed = self._active.setdefault(run_id, _Followed(paths))
        if not followed.watched:
            followed.watched = _watched(paths, lambda: self.ended())
        return followed.read()

    def _lost(self, run_id: str) -> RunStatus | None:
        """Return a run whose worker is gone, even where no record can be made."""
        paths = self._home.run(run_id)
        if (ended := self._of_record(paths)) is not None:
            return ended
        found = places.known(paths)
        if found is not None:
            final = found.state.final
            return _seen(paths, found) if final else RunStatus(run_id, claimed=True)
        # It was lost before it had said anything.
        return RunStatus(
            run_id,
            claimed=True,
            ended=True,
            state=State.LOST,
            reason=Reason.RUNNER_LOST,
            bytes=removal.size_bytes(paths.root),
        )

    def _of_record(self, paths: RunPaths) -> RunStatus | None:
        """Return a run with a record; None if it has none."""
        try:
            changed = os.stat(paths.record).st_mtime_ns  # noqa: PTH116 - of many runs
        except OSError:
            self._ended.pop(paths.id, None)
            return None
        known = self._ended.get(paths.id)
        if known is not None and known[0] == changed:
            return known[1]
        try:
            name = paths.record.name
            data = files.read_below(paths.root, name, runs.MOST_RECORD_BYTES)
            found = _seen(paths, json.decode(data, type=_EndedRun))
        except (OSError, ValueError):
            return None
        self._active.pop(paths.id, None)
        if found.reason is Reason.GPU_ERROR:
            self._executor.failed(found)
        if len(self._ended) >= MOST_KEPT:
            self._ended.pop(next(iter(self._ended)))
        self._ended[paths.id] = changed, found
        return found


def _is_known(paths: RunPaths) -> bool:
    """Whether a worker took a run, once, or will; what nobody took is removed."""
    if paths.record.exists():
        return True
    if places.standing(paths) is not Standing.NOT_CLAIMED:
        return True
    try:
        Claim(paths).close()
    except ClaimedError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    removal.discard(paths.root.parent, paths.id)
    return False


def _in_slurm(paths: RunPaths, home: Home) -> RunStatus:
    """Return a run that Slurm has, with what it waits for in words."""
    from runner.execution import slurm

    found, trouble = slurm.run_of(paths, home)
    why = trouble or found.why or "Slurm has it"
    if found.state is QueueState.WAITING and not trouble:
        why = f"in Slurm's queue: {why}"
    return RunStatus(paths.id, waits=why)


def _gone(run_id: str) -> RunStatus:
    return RunStatus(run_id, claimed=True, state=State.LOST)


class _EndedRun(Struct, frozen=True):
    """What is read of a record, which may be large."""

    state: State
    created_at: float | None = None
    verdict: Verdict | None = None
    ended_at: float | None = None
    gpu: GpuUse | None = None


def _seen(paths: RunPaths, seen: _EndedRun | RunRecord) -> RunStatus:
    """Return a run that has ended."""
    return RunStatus(
        paths.id,
        claimed=True,
        ended=True,
        state=seen.state,
        reason=seen.verdict.reason if seen.verdict else None,
        started_at=seen.created_at,
        ended_at=seen.ended_at,
        gpus=tuple(gpu.uuid for gpu in seen.gpu.gpus) if seen.gpu else (),
        bytes=removal.size_bytes(paths.root),
    )


def _watched(paths: RunPaths, ended: Callable[[], None]) -> bool:
    """Have a thread call this at the end of a run's worker, whoever started it.

    Return whether it is within reach.
    """
    held = claim.holder(paths)
    if held is None or not held.process.is_within_reach_of(machine.this_process()):
        return False
    try:
        process = os.pidfd_open(held.process.pid)
    except OSError:
        return False
    # Its lock tells that it lives, so that its number is no other process's.
    if claim.standing(paths) is not Standing.ALIVE:
        os.close(process)
        return False

    def wait() -> None:
        over = select.poll()
        over.register(process, select.POLLIN)
        over.poll()
        os.close(process)
        ended()

    threading.Thread(target=wait, name="end", daemon=True).start()
    return True


class _Followed:
    """A run that goes on: its state, by the events that were read so far."""

    def __init__(self, paths: RunPaths) -> None:
        self.watched = False
        self._id, self._tail = paths.id, Tail(paths)
        self._state: State | None = None
        self._started_at: float | None = None
        self._gpus: tuple[str, ...] = ()

    def read(self) -> RunStatus:
        """Return the run after the events that are new, or so many of them."""
        with suppress(OSError):
            for line in islice(self._tail.lines(), MOST_LINES):
                self._take(line)
        return RunStatus(
            self._id,
            claimed=True,
            state=self._state or State.NEW,
            started_at=self._started_at,
            gpus=self._gpus,
        )

    def _take(self, line: bytes) -> None:
        if _SKIPPED in line[:64]:
            return
        with suppress(ValueError):
            at, event = ev.from_line(line)
            if self._started_at is None:
                self._started_at = at
            if isinstance(event, ev.StateChanged):
                self._state = event.state
            if isinstance(event, ev.GpuGiven):
                self._gpus = tuple(gpu.uuid for gpu in event.use.gpus)
