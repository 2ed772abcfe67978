"""Where whole runs are carried out, and who knows whether they live.

An engine confines commands on one machine; a place carries out a run, engine and all.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from runner import archive, files, trees
from runner.core import RunRecord, State, record
from runner.core import events as ev
from runner.core.cancel import Cancel
from runner.core.errors import RaiError
from runner.places.base import RunPlace, Worker
from runner.places.here import Here
from runner.store import claim, home, removal, runs
from runner.store.claim import Claim, ClaimedError, Standing
from runner.store.paths import Home, RunPaths

__all__ = [
    "RunPlace",
    "Standing",
    "Worker",
    "cancel",
    "elsewhere",
    "known",
    "open_home",
    "place",
    "record_of",
    "standing",
]

TABLE: dict[str, RunPlace] = {one.name: one for one in (Here(),)}
POLL_S = 0.1


def place(name: str = claim.HERE) -> RunPlace:
    """Return a place by its name."""
    return TABLE[name]


def standing(paths: RunPaths) -> Standing:
    """Return whether somebody carries out a run, as its place knows."""
    return _place_of(paths).look([paths])[paths.id]


def cancel(paths: RunPaths) -> None:
    """Ask for a run to end."""
    _place_of(paths).cancel(paths)


def elsewhere(paths: RunPaths) -> str:
    """Return the machine that carries a run out, "" unless it cannot be seen from here.

    Whether the run still lives there cannot be told.
    """
    if paths.record.exists() or standing(paths) is not Standing.ELSEWHERE:
        return ""
    holder = claim.holder(paths)
    return (holder.on if holder else "") or "another machine"


def known(paths: RunPaths) -> RunRecord | None:
    """Return a run's record; None if there is none.

    A run that nobody holds any more is lost, even where that cannot be recorded, as on
    a disk that is full or read-only.
    """
    found = runs.read(paths)
    if found is None or found.state.final or active(paths):
        return found
    # Its holder may have ended it meanwhile.
    again = runs.read(paths)
    if again is None or again.state.final or standing(paths) is not Standing.GONE:
        return again
    return record.lost(again, _last_change_s(paths))


def record_of(paths: RunPaths) -> RunRecord:
    """Return a run's record, as ``known`` does; raise UsageError if there is none."""
    if (found := known(paths)) is None:
        return home.record_of(paths)
    return found


def active(paths: RunPaths) -> bool:
    """Whether a run goes on, or may still begin."""
    if paths.record.exists():
        return False
    match standing(paths):
        case Standing.GONE:
            return False
        case Standing.NOT_CLAIMED:
            return _age_s(paths) < claim.GRACE_S
        case _:
            return True


def wait(paths: RunPaths, timeout_s: float | None = None) -> bool:
    """Wait for the end of a run, and record it where its holder could not.

    Returns False where the run goes on after ``timeout_s``.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while active(paths):
        if deadline is not None and time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    if not paths.record.exists():
        open_home(paths.root.parent.parent)
    return True


def as_they_end(
    runs: Sequence[RunPaths], timeout_s: float | None = None
) -> Iterator[RunPaths]:
    """Yield each run when it has ended; after ``timeout_s`` no more."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    left = list(runs)
    while True:
        for paths in [one for one in left if not active(one)]:
            left.remove(paths)
            wait(paths)
            yield paths
        if not left or (deadline is not None and time.monotonic() > deadline):
            return
        time.sleep(POLL_S)


def after(names: Iterable[str], paths: RunPaths, cancel: Cancel) -> Iterator[ev.Event]:
    """Wait for the end of other runs beside this one, or for a cancel.

    Yields what to record of it.
    """
    others = [RunPaths(paths.root.with_name(name)) for name in names]
    if others:
        yield ev.StateChanged(State.QUEUED)
    for other in others:
        if active(other):
            where = elsewhere(other)
            on = f"; it is carried out on {where}" if where else ""
            yield ev.Waiting(f"run {other.id} has not ended{on}")
        while active(other) and not cancel.requested:
            time.sleep(POLL_S)


def open_home(root: Path) -> Home:
    """Return the home folder, after recording the runs as lost that nobody holds.

    What a process that died had yet to delete is deleted.
    """
    opened = home.make(root)
    removal.empty(opened.runs)
    removal.empty(opened.data)
    if lost := sweep(opened):
        with home.open_index(opened) as listed:
            listed.put(*lost)
    return opened


def sweep(opened: Home) -> list[RunRecord]:
    """Record each run that ended without a record as lost.

    Returns these records, and those of runs that the index does not know to have ended:
    a run's record is there a moment before its holder tells the index. A folder that
    cannot be read or written is left to a later sweep.
    """
    found = []
    for paths in home.unfinished(opened):
        with contextlib.suppress(OSError):
            found += _swept(opened, paths)
    return found


def _swept(opened: Home, paths: RunPaths) -> list[RunRecord]:
    if active(paths) or paths.root.is_symlink():
        return []
    # The record is looked for again: its holder may just have written it.
    if paths.record.exists():
        found = runs.read(paths)
        return [found] if found is not None and found.state.final else []
    if standing(paths) is Standing.NOT_CLAIMED and not _claimed_for_good(paths):
        return []
    if (ended := _ended(paths)) is None:
        if _is_empty(paths):
            # It was given up before there was anything to tell.
            removal.discard(opened.runs, paths.id)
            removal.empty(opened.runs)
        return []
    # The second is what was unpacked when its process died.
    for left in (paths.unpacked, *paths.root.glob(f".{paths.unpacked.name}.*")):
        with contextlib.suppress(OSError):
            trees.remove(left)
    for part in paths.root.glob(".*.part"):
        part.unlink(missing_ok=True)
    # Another process that sweeps may have renamed the file meanwhile.
    with contextlib.suppress(FileNotFoundError):
        files.write(paths.record, record.to_json(ended))
    return [ended]


def _ended(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that nobody holds; None if nothing is known of it."""
    try:
        last = record.fold(runs.stamped(paths)) or _sealed(paths)
    except ValueError:
        return None
    if last is not None:
        last = replace(last, id=paths.id)  # a copy has its folder's name
    # A process that died between the last event and the record had finished.
    if last is None or last.state.final:
        return last
    return record.lost(last, time.time())


def _claimed_for_good(paths: RunPaths) -> bool:
    """Claim a run that nobody claimed, so that nobody begins it any more."""
    if not paths.parcel.exists() and not paths.events.exists():
        return True
    try:
        Claim(paths).close()
    except ClaimedError:
        return False
    return True


def _is_empty(paths: RunPaths) -> bool:
    """Whether a folder is a run's that has nothing to show."""
    shown = (paths.events, paths.stdout, paths.stderr, paths.build, paths.parcel)
    found = {path.name for path in paths.root.iterdir() if path.is_dir()}
    return (
        re.fullmatch(runs.ID, paths.id) is not None
        and not any(path.exists() and path.stat().st_size for path in shown)
        and found <= {paths.unpacked.name}
    )


def _sealed(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that was sealed and never begun."""
    try:
        parcel = archive.read_parcel(paths.parcel)
        created_at = paths.parcel.stat().st_mtime
    except (RaiError, OSError):
        return None
    return RunRecord(
        paths.id, parcel.project, parcel.spec_file, created_at, git=parcel.git
    )


def _age_s(paths: RunPaths) -> float:
    """Return for how long nothing has changed in a folder that nobody claimed."""
    return min(claim.age_s(file) for file in _signs(paths))


def _last_change_s(paths: RunPaths) -> float:
    try:
        return paths.events.stat().st_mtime
    except OSError:
        return time.time()


def _signs(paths: RunPaths) -> Iterable[Path]:
    return paths.root, paths.parcel, paths.events


def _place_of(paths: RunPaths) -> RunPlace:
    holder = claim.holder(paths)
    name = holder.place if holder else claim.HERE
    return TABLE.get(name, TABLE[claim.HERE])
