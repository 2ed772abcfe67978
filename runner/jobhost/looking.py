"""What a run's folder tells of it, cheaply: few bytes are read for each look."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct, ValidationError, json
from msgspec.structs import replace

from runner import files, places
from runner.core import Reason, State, Verdict
from runner.core import events as ev
from runner.jobhost.carrier import Carrier
from runner.places import Standing
from runner.store import removal, runs
from runner.store.paths import Home, RunPaths
from runner.wire.host import HostRun

PIECE_BYTES = 1 << 20
MOST_KEPT = 4096
"""How many ended runs are remembered."""

_SKIPPED = b'"event":"Output"'


class _Named(Struct, frozen=True):
    uuid: str


class _UsedGpus(Struct, frozen=True):
    gpus: tuple[_Named, ...] = ()


class _EndedRun(Struct, frozen=True):
    """What is read of a record, which may be large."""

    state: State
    created_at: float | None = None
    verdict: Verdict | None = None
    ended_at: float | None = None
    gpu: _UsedGpus | None = None


class RunLooks:
    """What is known of the runs of a home folder.

    ``starting`` says whether a run is being started: it has no worker before that is
    over. ``ended`` is called with each run that has ended, maybe repeatedly. The
    ``carrier`` knows of those that wait at their place.
    """

    def __init__(
        self,
        home: Home,
        starting: Callable[[str], bool],
        ended: Callable[[HostRun], None],
        carrier: Carrier,
    ) -> None:
        self._home, self._starting, self._told = home, starting, ended
        self._carrier = carrier
        self._lock = threading.Lock()
        self._ended: dict[str, tuple[int, HostRun]] = {}
        self._active: dict[str, _Followed] = {}
        for paths in map(home.run, runs.names(home)):
            if not paths.record.exists():
                self._active[paths.id] = _Followed(paths)

    def look(self, ids: Iterable[str]) -> tuple[HostRun, ...]:
        """Return what is known of runs; one without a folder is left out."""
        with self._lock:
            wanted = list(dict.fromkeys(ids))
            found = {run_id: self._one(run_id) for run_id in wanted}
            if gone := [i for i, one in found.items() if one == _gone(i)]:
                places.open_home(self._home.root)  # which makes their records
                found |= {run_id: self._lost(run_id) for run_id in gone}
            return tuple(one for one in found.values() if one)

    def look_at_active(self) -> None:
        """Look at each run that had not ended when it was seen last."""
        self.look(tuple(self._active))

    def started(self, run_id: str) -> None:
        """Follow a run that was just started."""
        self.look((run_id,))

    def _one(self, run_id: str) -> HostRun | None:
        paths = self._home.run(run_id)
        if self._starting(run_id):
            return HostRun(run_id, claimed=False, ended=False)
        if (ended := self._of_record(paths)) is not None:
            return ended
        match places.standing(paths):
            case Standing.NOT_CLAIMED if not paths.root.is_dir():
                self._active.pop(run_id, None)
                return None
            case Standing.NOT_CLAIMED:
                return HostRun(run_id, claimed=False, ended=False)
            case Standing.WAITS:
                return self._carrier.waits(paths)
            case Standing.GONE:
                # It may have ended just now, after its record was looked for.
                return self._of_record(paths) or _gone(run_id)
        followed = self._active.setdefault(run_id, _Followed(paths))
        followed.node = followed.node or self._carrier.node(paths)
        return followed.read()

    def _lost(self, run_id: str) -> HostRun | None:
        """Return a run whose worker is gone, even where no record can be made."""
        paths = self._home.run(run_id)
        if (ended := self._of_record(paths)) is not None:
            return ended
        found = places.known(paths)
        if found is not None and not found.state.final:
            return HostRun(run_id, claimed=True, ended=False)
        if found is None:
            # It was lost before it had said anything.
            verdict = Verdict(False, False, None, Reason.RUNNER_LOST)
            return _host_run(paths, _EndedRun(State.LOST, verdict=verdict))
        seen = _EndedRun(found.state, found.created_at, found.verdict, found.ended_at)
        return _host_run(paths, seen)

    def _of_record(self, paths: RunPaths) -> HostRun | None:
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
            seen = json.decode(data, type=_EndedRun)
        except (OSError, ValidationError, ValueError):
            return None
        followed = self._active.pop(paths.id, None)
        node = (followed.node if followed else "") or self._carrier.node(paths)
        found = replace(_host_run(paths, seen), node=node)
        self._told(found)
        if len(self._ended) >= MOST_KEPT:
            self._ended.pop(next(iter(self._ended)))
        self._ended[paths.id] = changed, found
        return found


def _gone(run_id: str) -> HostRun:
    return HostRun(run_id, claimed=True, ended=False, state=State.LOST)


def _host_run(paths: RunPaths, seen: _EndedRun) -> HostRun:
    reason = seen.verdict.reason if seen.verdict else None
    return HostRun(
        paths.id,
        claimed=True,
        ended=True,
        state=seen.state,
        reason=reason,
        exit_code=reason.exit_code if reason else None,
        started_at=seen.created_at,
        ended_at=seen.ended_at,
        gpus=tuple(gpu.uuid for gpu in seen.gpu.gpus) if seen.gpu else (),
        bytes=removal.size_bytes(paths.root),
    )


class _Followed:
    """A run that goes on: its state, by the events that were read so far."""

    def __init__(self, paths: RunPaths) -> None:
        self.node = ""
        self._paths, self._offset = paths, 0
        self._state: State | None = None
        self._started_at: float | None = None
        self._gpus: tuple[str, ...] = ()

    def read(self) -> HostRun:
        """Return the run after the events that are new, or so many of them."""
        with suppress(OSError), files.open_regular(self._paths.events) as file:
            file.seek(self._offset)
            data = file.read(PIECE_BYTES)
            if len(data) == PIECE_BYTES and b"\n" not in data:
                data += file.read(runs.MOST_LINE_BYTES)
            whole = data[: data.rfind(b"\n") + 1]
            self._offset += len(whole)
            for line in whole.splitlines():
                self._take(line)
        return HostRun(
            self._paths.id,
            claimed=True,
            ended=False,
            state=self._state or State.NEW,
            started_at=self._started_at,
            gpus=self._gpus,
            node=self.node,
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
