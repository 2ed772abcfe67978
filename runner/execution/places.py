"""Where whole runs run, and who knows whether they live.

An engine confines commands on one machine; a place runs whole runs, engine and all.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from runner.client import profile
from runner.core import Reason, RunRecord, State, record
from runner.core import events as ev
from runner.core.addresses import SLURM
from runner.core.errors import Cancel, UsageError
from runner.execution.local import Following, RunPlace
from runner.store import claim, home, removal, run_files, runs
from runner.store.claim import Claim, ClaimedError, Standing
from runner.store.paths import Home, RunPaths
from runner.system import files, trees

HERE = RunPlace()
POLL_S = 0.1
SHARE = 4
"""A look at many runs is followed by a pause of so many times its length."""

MOST_PAUSE_S = 2.0
LOOK_S = 0.005
REFRESHED_WITHIN_S = 5.0
STOPS_WITHIN_S = 1.0
AT_ONCE = 16
"""How many copies are brought up to date at the same time."""

OnTrouble = Callable[[str], None]


def standing(paths: RunPaths) -> Standing:
    """Return whether somebody runs a run, as its place knows."""
    # Of a run on a server its claim tells, so that HTTP is not loaded for it.
    place = HERE if _place_name(paths) != SLURM else _place(SLURM)
    return place.standing(paths)


def of(paths: RunPaths) -> RunPlace:
    """Return the place of a run."""
    return _place(_place_name(paths))


def elsewhere(paths: RunPaths) -> str:
    """Return what runs a run: a server, a machine; "" for this machine.

    Of a run on Slurm it is the node, or where it waits.
    """
    if paths.record.exists():
        return ""
    found, holder = standing(paths), claim.holder(paths)
    if (handing := run_files.read_submission(paths)) and found is not Standing.GONE:
        return holder.on if holder else handing.target
    if found is not Standing.ELSEWHERE:
        return ""
    return (holder.on if holder else "") or "another machine"


def unseen(paths: RunPaths) -> str:
    """Return the machine that runs a run, "" unless it cannot be seen from here.

    Whether the run still lives there cannot be told; a server could be asked.
    """
    at_place = _place_name(paths) in (SLURM, claim.SERVER)
    return "" if at_place else elsewhere(paths)


@contextlib.contextmanager
def followed(runs: Iterable[RunPaths]) -> Iterator[list[Following]]:
    """Keep the copies of runs elsewhere up to date meanwhile; yield what does it."""
    with _started(_following(runs)) as found:
        yield found


@contextlib.contextmanager
def _started(found: list[Following]) -> Iterator[list[Following]]:
    for one in found:
        one.start()
    try:
        yield found
    finally:
        for one in found:
            one.stop()
        by = time.monotonic() + STOPS_WITHIN_S
        for one in found:
            # A place that is not reached may hold up its thread, and nobody's copy.
            left_s = 0.0 if one.trouble else by - time.monotonic()
            one.thread.join(max(left_s, 0.0))


def refresh(runs: Iterable[RunPaths]) -> dict[str, str]:
    """Bring the copies of runs elsewhere up to date, as far as some seconds allow.

    Returns by their ids why some are not, "" for those that are.
    """
    found, by = _following(runs), time.monotonic() + REFRESHED_WITHIN_S
    doubts: dict[str, str] = {}
    for first in range(0, len(found), AT_ONCE):
        with _started(found[first : first + AT_ONCE]) as some:
            while not all(one.settled for one in some) and time.monotonic() < by:
                time.sleep(LOOK_S)
            doubts |= {one.paths.id: one.doubt for one in some}
    return doubts


def find(opened: Home, text: str) -> RunPaths:
    """Return the run that ``text`` names, as ``store.home.find`` does, here or there.

    What is an id and no run here is asked of the user's server last.

    Raises:
        UsageError: it is no run, or several.
        RaiError: the server is not reached.
    """
    try:
        return home.find(opened, text)
    except UsageError:
        if not re.fullmatch(runs.ID, text) or profile.login() is None:
            raise
        from runner.execution import server

        if (found := server.copied(opened, text)) is None:
            raise
        return found


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
    return _without_holder(paths, again, _last_change_s(paths))


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
    return any(True for _ in as_they_end([paths], timeout_s))


def as_they_end(
    runs: Sequence[RunPaths],
    timeout_s: float | None = None,
    on_trouble: OnTrouble = lambda _: None,
) -> Iterator[RunPaths]:
    """Yield each run when it has ended; after ``timeout_s`` no more.

    Its end is recorded where its holder could not. ``on_trouble`` is called with each
    server's trouble that is new, "" when it is over.
    """
    deadline = math.inf if timeout_s is None else time.monotonic() + timeout_s
    left, trouble = list(runs), ""
    with followed(runs) as followers:
        while True:
            began_s = time.monotonic()
            over = [one for one in left if not active(one)]
            took_s = time.monotonic() - began_s
            for paths in over:
                left.remove(paths)
                if not paths.record.exists():
                    open_home(paths.home.root)
                yield paths
            if not left or time.monotonic() > deadline:
                return
            now = next((one.trouble for one in followers if one.trouble), "")
            if now != trouble:
                on_trouble(now)
            trouble = now
            _check(followers)
            time.sleep(min(max(POLL_S, SHARE * took_s), MOST_PAUSE_S))


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
            on = f"; it runs on {where}" if where else ""
            yield ev.Waiting(f"run {other.id} has not ended{on}")
        with followed([other]) as followers:
            while active(other) and not cancel.requested:
                _check(followers)
                time.sleep(POLL_S)


def open_home(root: Path) -> Home:
    """Return the home folder, after recording the runs as lost that nobody holds.

    What a process that died had yet to delete is deleted.
    """
    opened = home.make(root)
    removal.empty(opened.runs)
    removal.empty(opened.data)
    sweep(opened)
    return opened


def sweep(opened: Home) -> list[RunRecord]:
    """Record each run that ended without a record as lost; return these records.

    A folder that cannot be read or written is left to a later sweep.
    """
    found = []
    for paths in home.unfinished(opened):
        with contextlib.suppress(OSError):
            found += _swept(opened, paths)
    return found


def _swept(opened: Home, paths: RunPaths) -> list[RunRecord]:
    # The record is looked for again: its holder may just have written it.
    if active(paths) or paths.root.is_symlink() or paths.record.exists():
        return []
    if not paths.holder.exists() and not _claimed_for_good(paths):
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
    # It may have secrets, and a run with a record is not looked at again.
    paths.order.unlink(missing_ok=True)
    # Another process that sweeps may have renamed the file meanwhile.
    with contextlib.suppress(FileNotFoundError):
        if not files.write_once(paths.record, record.to_json(ended)):
            return []
    of(paths).forget(paths)
    return [ended]


def _ended(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that nobody holds; None if nothing is known of it."""
    try:
        last = record.fold(runs.stamped(paths)) or run_files.begun_record(paths)
    except ValueError:
        return None
    if last is not None:
        last = replace(last, id=paths.id)  # a copy has its folder's name
    # A process that died between the last event and the record had finished.
    if last is None or last.state.final:
        return last
    return _without_holder(paths, last, time.time())


def _without_holder(paths: RunPaths, last: RunRecord, at: float) -> RunRecord:
    """Return the record of a run that nobody runs any more."""
    if (verdict := of(paths).verdict(paths)) is None:
        return record.lost(last, at)
    cancelled = verdict.reason is Reason.CANCELLED
    state = State.CANCELLED if cancelled else State.LOST
    return record.end(last, state, at, verdict)


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


def _age_s(paths: RunPaths) -> float:
    """Return for how long nothing has changed in a folder that nobody claimed."""
    return min(map(claim.age_s, (paths.root, paths.parcel, paths.events)))


def _last_change_s(paths: RunPaths) -> float:
    try:
        return paths.events.stat().st_mtime
    except OSError:
        return time.time()


def _place_name(paths: RunPaths) -> str:
    handing = run_files.read_submission(paths)
    if handing is not None and handing.place == SLURM:
        return SLURM
    holder = claim.holder(paths)
    return holder.place if holder else claim.HERE


@cache
def _place(name: str) -> RunPlace:
    """Return a place; it is loaded where there is a run of it."""
    if name == SLURM:
        from runner.execution.slurm import SlurmPlace

        return SlurmPlace()
    if name == claim.SERVER:
        from runner.execution.server import Server

        return Server()
    return HERE


def _following(runs: Iterable[RunPaths]) -> list[Following]:
    """Return what keeps the copies among these up to date, of runs that go on."""
    found = (of(paths).follow(paths) for paths in runs if active(paths))
    return [one for one in found if one is not None]


def _check(followers: Iterable[Following]) -> None:
    for one in followers:
        one.check()
