"""What runs a server's runs: workers of this machine, or a cluster's jobs."""

from __future__ import annotations

import shlex
import shutil
import socket as sockets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from runner import __version__
from runner.core import Problem, RunRequest, addresses, work
from runner.core.addresses import SlurmTarget
from runner.core.errors import BusyError, ConfigError, EngineError, RaiError
from runner.core.request import (
    FACTS,
    FOR_SERVER,
    MOST_BYTES,
    Answer,
    answer_from,
    to_json,
)
from runner.core.wire import Capacity
from runner.execution import prepare, slurm_programs
from runner.execution import slurm as cluster
from runner.execution.handover import needs_of
from runner.execution.local import ANSWERED_WITHIN_S, WORKER
from runner.execution.prepare import Options
from runner.server.decision import RunStatus
from runner.store import claim
from runner.store import settings as stored
from runner.store.claim import Standing
from runner.store.paths import Home, RunPaths
from runner.store.removal import locked
from runner.store.settings import SETTINGS, Settings
from runner.system import files
from runner.system.process import Detached

CAPACITY = "capacity.json"
"""What was found last, in the home of the runs, for `rai server gpu` and `doctor`."""

GPUS = "gpus.json"
MOST_GPUS_BYTES = 1 << 20
LEAST_OUT_S = 60.0
"""So long a GPU is out at least."""

FRESH_S = 60.0
FRESH_IN_TROUBLE_S = 10.0
SURVEYED_WITHIN_S = 120.0
"""More than a driver that hangs takes to be given up."""

CONNECTED_WITHIN_S = 10.0

CLUSTER_FRESH_S = 5.0
PARTITION = "partition"
PASSED = frozenset(
    (
        *slurm_programs.OF_SBATCH,
        *(*work.PASSED, "TMPDIR", "XDG_RUNTIME_DIR", "CUDA_VISIBLE_DEVICES"),
        *(setting.variable for setting in SETTINGS),
    )
)
"""What a worker has of the server's environment: nothing that is not named here."""


class NotBegunError(RaiError):
    """A worker ended before it claimed its run, so nothing of it ran."""


class GpuNote(Struct, frozen=True):
    """Why a GPU is out, "" if it is not, since when, and when it came back last."""

    why: str = ""
    since: float = 0.0
    back: float = 0.0
    stays: bool = False  # until staff let it back

    @property
    def words(self) -> str:
        """Return why it is out and since when, for people."""
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"{self.why}; out since {clock}" if self.why else ""

    def may_return(self, at: float) -> bool:
        """Whether it is out, and may come back at a time."""
        return bool(self.why) and not self.stays and at >= self.since + LEAST_OUT_S


class GpusOut:
    """The GPUs of a home that no run gets: those of a run that ended with their error.

    One stays out for a minute at least, and until its state is well; or until somebody
    lets it back by `rai server gpu clear`, which one needs whose times are odd. The
    file outlives the server.
    """

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        self._home, self._clock = home, clock

    def failed(self, uuids: Sequence[str], run_id: str, at: float) -> None:
        """Put the GPUs out of a run that ended at a time with their error.

        One that came back since stays.
        """
        with self._changing() as notes:
            for uuid in uuids:
                note = notes.get(uuid, GpuNote())
                if at > max(note.back, note.since):
                    why = note.why or f"run {run_id} ended with an error of this GPU"
                    notes[uuid] = replace(note, why=why, since=at)

    def odd(self, uuid: str, why: str, at: float) -> None:
        """Put a GPU out on which times are not as they should be."""
        with self._changing() as notes:
            notes[uuid] = GpuNote(why=why, since=at, stays=True)

    def looked(self, problems: Mapping[str, str], at: float) -> None:
        """Let the GPUs back that are well by a look at a time.

        ``problems`` has what is wrong with each GPU that was seen, "" for nothing.
        """
        with self._changing() as notes:
            for uuid, note in notes.items():
                if note.may_return(at) and problems.get(uuid) == "":
                    notes[uuid] = GpuNote(back=at)

    def clear(self, uuid: str) -> None:
        """Let a GPU back."""
        with self._changing() as notes:
            if uuid in notes:
                notes[uuid] = GpuNote(back=self._clock())

    def due(self, since: float) -> bool:
        """Whether a look that is newer than ``since`` may let a GPU back now."""
        now = self._clock()
        return any(
            note.may_return(now) and since < note.since + LEAST_OUT_S
            for note in self._notes().values()
        )

    def words(self) -> dict[str, str]:
        """Return the GPUs that are out, and why."""
        return {u: note.words for u, note in self._notes().items() if note.why}

    def _notes(self) -> dict[str, GpuNote]:
        """Return the notes by the UUID of each GPU, or of a slice of one."""
        try:
            data = files.read_below(self._home, GPUS, MOST_GPUS_BYTES)
            return json.decode(data, type=dict[str, GpuNote])
        except (OSError, ValueError):
            return {}  # none was out yet, or damaged: then each GPU is tried again

    @contextmanager
    def _changing(self) -> Iterator[dict[str, GpuNote]]:
        """Let one process and thread after the other change the notes."""
        with locked(self._home):
            notes = self._notes()
            before = dict(notes)
            yield notes
            if notes != before:
                files.write(self._home / GPUS, json.encode(notes))


class Executor:
    """What runs things: this machine, or a cluster; a thread looks at it at times."""

    def __init__(self, home: Home) -> None:
        self._home, self._gpus = home, GpusOut(home.root)
        self._looking = threading.Lock()
        self._found: Capacity | None = None
        self._begun = 0.0  # of the last look, since 1970
        self._ended_s = float("-inf")

    def capacity(self) -> Capacity | None:
        """Return what can run now; None before the first look is over."""
        if self._due() and self._looking.acquire(blocking=False):
            threading.Thread(target=self._look, name="rai-survey", daemon=True).start()
        return self._found and as_now(self._found, self._gpus, self._home)

    def start(self, paths: RunPaths, asked: RunRequest) -> Answer:
        """Have a run begun whose folder is whole, and return whether it was refused.

        Raises:
            RaiError: it cannot be started.
        """
        raise NotImplementedError

    def failed(self, run: RunStatus) -> None:
        """Withhold from runs the GPUs of one that ended with their error."""

    def _due(self) -> bool:
        found = self._found
        fresh_s = FRESH_S if found and found.engines else FRESH_IN_TROUBLE_S
        return time.monotonic() - self._ended_s > fresh_s

    def _survey(self) -> Capacity:
        raise NotImplementedError

    def _look(self) -> None:
        """Keep what is found, for the commands beside the server too."""
        try:
            begun = time.time()
            found = self._survey()
            self._begun = begun
            if found.gpus:  # else another gives them to runs
                self._gpus.looked({gpu.uuid: gpu.out for gpu in found.gpus}, begun)
            keep(self._home, found)
            self._found = found
        finally:
            self._ended_s = time.monotonic()
            self._looking.release()


class WorkerLink(Protocol):
    """A worker that has not been given its line yet: a child, or a connection."""

    def write(self, data: bytes) -> None:
        """Send the line; raise OSError if it has ended."""

    def read_line(self, timeout_s: float, most_bytes: int) -> bytes:
        """Return its answer; b"" if it ends, or none comes in time."""

    def leave(self) -> None:
        """Let it go on."""


Summon = Callable[[], WorkerLink]
"""What starts a worker; it raises RaiError where that fails."""


def children(home: Home, environ: Mapping[str, str]) -> Summon:
    """Return what starts workers as children, with none of the server's secrets."""
    env = {name: value for name, value in environ.items() if name in PASSED}
    env["RAI_HOME"] = str(home.root)
    return lambda: Detached([*WORKER, FOR_SERVER], env=env)


class SocketWorker:
    """A worker at the other end of a socket; systemd starts one for each connection."""

    def __init__(self, path: Path) -> None:
        self._peer = sockets.socket(sockets.AF_UNIX)
        self._peer.settimeout(CONNECTED_WITHIN_S)
        try:
            self._peer.connect(str(path))
        except OSError as error:
            self._peer.close()
            text = f"no worker can be started by {path}: {error.strerror or error}"
            hint = "see that its socket unit runs: systemctl status rai-worker.socket"
            raise BusyError(Problem(text, hint=hint), advice="") from error

    def write(self, data: bytes) -> None:
        """Send the line; raise OSError if it has ended."""
        self._peer.sendall(data)

    def read_line(self, timeout_s: float, most_bytes: int) -> bytes:
        """Return its answer; b"" if it ends, or none comes in time."""
        self._peer.settimeout(timeout_s)
        with suppress(OSError), self._peer.makefile("rb") as file:
            return file.readline(most_bytes)
        return b""

    def leave(self) -> None:
        """Let it go on."""
        self._peer.close()


class ThisMachine(Executor):
    """This machine, at which a process of its own looks now and then."""

    def __init__(self, home: Home, summon: Summon) -> None:
        super().__init__(home)
        self._summon = summon

    def start(self, paths: RunPaths, asked: RunRequest) -> Answer:
        """Start a worker, and wait until it has its engine, GPUs and image's plan.

        Raises:
            NotBegunError: it ended before it claimed the run.
            BusyError: none can be started now.
        """
        terms = replace(asked.terms, gpus_out=self._gpus.words())
        files.write(paths.order, to_json(replace(asked, terms=terms)))
        try:
            worker = self._summon()
        except EngineError as error:  # there may be room for a process later
            raise BusyError(*error.problems, advice="") from error
        try:
            with suppress(OSError):  # then it does not answer either
                worker.write(f"{paths.id}\n".encode())
            line = worker.read_line(ANSWERED_WITHIN_S, MOST_BYTES)
        finally:
            worker.leave()
        with suppress(ValueError):
            return answer_from(line)
        if claim.standing(paths) is Standing.NOT_CLAIMED:
            raise NotBegunError("its worker ended before it began the run")
        return Answer()  # it took the run, and then was ended, or takes very long

    def failed(self, run: RunStatus) -> None:
        """Withhold from runs the GPUs of one that ended with their error."""
        if run.ended_at is not None:
            self._gpus.failed(run.gpus, run.id, run.ended_at)

    def _due(self) -> bool:
        return super()._due() or self._gpus.due(self._begun)

    def _survey(self) -> Capacity:
        line = b""
        try:
            worker = self._summon()
            with suppress(OSError):
                worker.write(f"{FACTS}\n".encode())
            line = worker.read_line(SURVEYED_WITHIN_S, MOST_BYTES)
            worker.leave()
            return json.decode(line, type=Capacity)
        except RaiError as error:
            problems = error.problems
        except DecodeError:
            with suppress(ValueError):
                problems = answer_from(line).problems
                return Capacity(__version__, (), problems=problems)
            text = "the engines cannot be looked at: a worker ended without an answer"
            problems = (Problem(text, hint="see the server's log"),)
        return Capacity(__version__, (), problems=problems)


def as_now(found: Capacity, out: GpusOut, home: Home) -> Capacity:
    """Return what can run without the GPUs that are out, with the disk as it is now."""
    why = out.words() if found.gpus else {}
    gpus = tuple(
        replace(gpu, out="; ".join(filter(None, (why.get(gpu.uuid, ""), gpu.out))))
        for gpu in found.gpus
    )
    return replace(found, gpus=gpus, disk_free=shutil.disk_usage(home.root).free)


def keep(home: Home, found: Capacity) -> None:
    """Keep what was found, for the commands beside the server."""
    with suppress(OSError):
        files.write(home.root / CAPACITY, json.encode(found) + b"\n")


def kept(home: Home) -> Capacity | None:
    """Return what a server found last; None if it has not looked yet."""
    try:
        data = files.read_below(home.root, CAPACITY, MOST_BYTES)
        return as_now(json.decode(data, type=Capacity), GpusOut(home.root), home)
    except (OSError, ValueError):
        return None


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
        prepared = prepare.opened(paths, asked, Options(engine=asked.engine or None))
        needs = replace(needs_of(prepared), cores=None, alone=False)
        options = (*self._options, *(words or ()))
        return cluster.hand_over(paths, target, asked, needs, options)

    def _due(self) -> bool:
        return time.monotonic() - self._ended_s >= CLUSTER_FRESH_S

    def _survey(self) -> Capacity:
        """Return whether Slurm answers; the last GPUs stay where it does not."""
        problems: tuple[Problem, ...] = ()
        name = self._target.partition
        try:
            found = slurm_programs.partition_of(name)
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
