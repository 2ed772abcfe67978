"""Start a run once, however often it is asked for, and whoever is killed meanwhile.

Its folder gets its name when both files are in it, and its worker claims it before
anything else. A folder that nobody claimed is claimed and removed before another is
made, so that a worker that comes late finds it taken.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from runner import files, places, trees
from runner.core import Problem
from runner.core.errors import BusyError, NotAllowedError, RaiError, UsageError
from runner.core.order import Order
from runner.core.parcel import LONGEST_BYTES
from runner.core.policy import RolePolicy
from runner.jobhost.carrier import Carrier
from runner.places import Standing
from runner.store import removal, runs
from runner.store.claim import Claim, ClaimedError
from runner.store.paths import Home, RunPaths
from runner.wire.host import HostAnswer, StartRun

AT_ONCE = 16
"""How many runs are started at a time; each waits for its worker's answer."""

ENGINE = "RAI_ENGINE"
ENGINES = ("auto", "docker", "local")
SETTINGS = (ENGINE, "RAI_STRICT_LIMITS")
"""The settings that a request may have; this machine has the others."""

ASIDE = ".new."
PIECE_BYTES = 1 << 20
THIS_SERVER = RolePolicy(source="this server")


class RunStarts:
    """What starts runs in one home folder, for one process."""

    def __init__(self, home: Home, most_bytes: int, carrier: Carrier) -> None:
        """Remove what a host that was killed left; ``most_bytes`` bounds a project."""
        self._home, self._most_bytes, self._carrier = home, most_bytes, carrier
        self._changed = threading.Condition()
        self._under_way: set[str] = set()
        self._cancelled: set[str] = set()
        self._waiting = 0
        home.runs.mkdir(mode=0o700, exist_ok=True)
        left = [path.name for path in home.runs.glob(f"{ASIDE}*")]
        removal.discard(home.runs, *left)
        for paths in map(home.run, runs.names(home)):
            _is_known(paths)
        removal.empty(home.runs)

    def start(self, request: StartRun, given: Sequence[int]) -> HostAnswer:
        """Start a run with the open files ``given``: its parcel and its archive.

        Return once it has its engine and a plan for its image, or was refused.

        Raises:
            RaiError: the request is wrong, or no worker took the run.
        """
        order = self._order(request)
        paths = RunPaths(Path(order.folder))
        with self._alone(request.id):
            if _is_known(paths):
                return HostAnswer(already=True)
            try:
                self._lay_out(paths, given)
            except OSError as error:
                # Later there may be room again.
                raise BusyError(files.problem(error)) from error
            if paths.id in self._cancelled:
                self._carrier.cancel(paths)
            return self._carried_out(paths, order, request)

    def has(self, run_id: str) -> bool:
        """Whether a run is being started, so that it may yet be refused."""
        return run_id in self._under_way

    def cancel(self, paths: RunPaths) -> None:
        """Ask for a run to end; raise UsageError if there is none."""
        with self._changed:
            starting = paths.id in self._under_way
            if starting:
                self._cancelled.add(paths.id)
        try:
            self._carrier.cancel(paths)
        except FileNotFoundError:
            if not starting:
                raise UsageError(f"no run {paths.id}") from None

    def _order(self, request: StartRun) -> Order:
        if unknown := sorted(request.settings.keys() - set(SETTINGS)):
            raise UsageError(f"a run has no setting {', '.join(unknown)}")
        if (engine := request.settings.get(ENGINE, "auto")) not in ENGINES:
            text = f"a server runs nothing with the engine {engine[:100]!r}"
            hint = f"it has {', '.join(ENGINES)}"
            raise NotAllowedError(Problem(text, hint=hint))
        return Order(
            str(self._home.run(request.id).root),
            {**request.settings, "RAI_HOME": str(self._home.root)},
            request.spec_text,
            request.secrets,
            sealed=True,
            allowed=request.allowed or THIS_SERVER,
        )

    @contextmanager
    def _alone(self, run_id: str) -> Iterator[None]:
        """Wait for another start of the same run; raise BusyError for too many."""
        with self._changed:
            if self._waiting + len(self._under_way) >= AT_ONCE:
                raise BusyError(f"{AT_ONCE} runs are being started already")
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: run_id not in self._under_way)
            finally:
                self._waiting -= 1
            self._under_way.add(run_id)
        try:
            yield
        finally:
            with self._changed:
                self._under_way.discard(run_id)
                self._cancelled.discard(run_id)
                self._changed.notify_all()

    def _carried_out(
        self, paths: RunPaths, order: Order, request: StartRun
    ) -> HostAnswer:
        """Start a worker, and return its answer."""
        try:
            answer = self._carrier.worker(order, request).carry_out()
        except RaiError:
            if _is_known(paths):
                # It took the run, and then was ended, or takes very long.
                return HostAnswer()
            raise
        if answer.reason is None:
            return HostAnswer()
        removal.discard(paths.root.parent, paths.id)
        removal.empty(paths.root.parent)
        return HostAnswer(answer.reason, answer.problems)

    def _lay_out(self, paths: RunPaths, given: Sequence[int]) -> None:
        """Make a run's folder, which has its name once it has its files."""
        if len(given) != 2:
            raise UsageError("a run starts with two files: its parcel and its archive")
        name = f"{ASIDE}{paths.id}.{secrets.token_hex(4)}"
        new = RunPaths(paths.root.with_name(name))
        new.root.mkdir(mode=0o700)
        try:
            _copy(given[0], new.parcel, LONGEST_BYTES)
            _copy(given[1], new.source, self._most_bytes)
            new.root.rename(paths.root)
        except BaseException:
            with suppress(OSError):
                trees.remove(new.root)
            raise


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


def _copy(given: int, path: Path, most_bytes: int) -> None:
    """Copy a file that was sent, whatever its offset is; it may change meanwhile."""
    facts = os.fstat(given)
    if not stat.S_ISREG(facts.st_mode):
        raise UsageError(f"{path.name} is not a regular file")
    if facts.st_size > most_bytes:
        text = f"{path.name} has {facts.st_size:,} bytes, and {most_bytes:,} is allowed"
        raise NotAllowedError(text)
    done = 0
    with files.naming(path), path.open("xb") as file:
        while data := os.pread(given, min(PIECE_BYTES, most_bytes + 1 - done), done):
            done += file.write(data)
    if done != facts.st_size:
        raise UsageError(f"{path.name} changed while it was copied")
