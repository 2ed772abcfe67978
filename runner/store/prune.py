"""Remove runs and data files, by hand or by the policy of the settings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runner import files
from runner.archive.datafiles.room import free
from runner.core import GIB, MIB, Problem, Reason
from runner.core.errors import ConfigError, RaiError
from runner.core.units import DAY_S
from runner.store import claim, keptdata, measurements, removal, retention, runs, tags
from runner.store.claim import Standing
from runner.store.home import make, newest, warnings_of
from runner.store.paths import Home, RunPaths
from runner.store.retention import KeptRun, Retention

LOW_BYTES = 5 * GIB
"""Under this much free space old runs are removed before a run starts."""

FLOOR_BYTES = 200 * MIB
"""Under this much free space no run starts."""

COUNTED = "in rai ranking"
"""What stands for a tag at a submission that counts; no tag has a space."""

MOST_TALLY_BYTES = 4096


class Removal(Struct, frozen=True):
    """What to remove: runs, and folders of data files.

    ``freed_bytes`` is what they take on disk. ``tagged`` are runs that only their tags
    keep, or that they are submissions that count.
    """

    runs: tuple[KeptRun, ...] = ()
    data: tuple[str, ...] = ()
    freed_bytes: int = 0
    tagged: tuple[KeptRun, ...] = ()


class Tally(Struct, frozen=True):
    """What rai removed by itself so far, and when it last looked."""

    looked_at: float = 0.0
    runs: int = 0
    freed_bytes: int = 0


def plan(
    home: Home, keep: Retention, now: float, *, spare_latest: bool = False
) -> Removal:
    """Return what is to be removed so that only what is to be kept is left."""
    ended = _ended(home)
    if not math.isinf(keep.size_bytes):
        ended = _measured(home, ended)
    found = retention.expired(ended, keep, now, spare_latest=spare_latest)
    found = _measured(home, found)
    tagged = retention.kept_by_tag(ended, keep, now)
    before = now - max(keep.age_s, DAY_S)
    data = keptdata.unneeded(home.data, keep.data_bytes, before)
    return replace(_removal(home, found, data), tagged=tuple(tagged))


def projects(home: Home) -> set[str]:
    """Return the folders of the projects that have runs here."""
    return {run.project for run in newest(home, lambda _: True)}


def _ended(home: Home) -> list[KeptRun]:
    return [
        KeptRun(
            run.id,
            run.project,
            run.created_at,
            run.created_at if run.ended_at is None else run.ended_at,
            tags.read(home.run(run.id)) or _counts(home.run(run.id)),
        )
        for run in newest(home, lambda run: run.state.final)
    ]


def _counts(paths: RunPaths) -> str:
    """Return a tag for a run of a submission that counts, "" for others."""
    return COUNTED if measurements.counts(paths) else ""


def _measured(home: Home, found: Iterable[KeptRun]) -> list[KeptRun]:
    return [
        replace(run, size_bytes=removal.size_bytes(home.run(run.id).root))
        for run in found
    ]


def carry_out(home: Home, what: Removal, spare: str = "") -> Removal:
    """Remove runs and data files; return it without what came into use meanwhile.

    The run ``spare`` stays.
    """
    folders = {run.id: home.run(run.id) for run in what.runs}
    stays = {name for name, p in folders.items() if not over(p) or tags.read(p)}
    stays |= {name for name, p in folders.items() if measurements.counts(p)}
    stays.add(spare)
    gone = tuple(run for run in what.runs if run.id not in stays)
    kept = sum(run.size_bytes or 0 for run in what.runs if run.id in stays)
    remove(home, [run.id for run in gone])
    data = keptdata.remove(home.data, what.data)
    kept += sum(removal.size_bytes(home.data / n) for n in what.data if n not in data)
    return Removal(gone, data, what.freed_bytes - kept, what.tagged)


def over(paths: RunPaths) -> bool:
    """Return whether a run has ended, and nobody writes to its folder any more."""
    found = runs.read(paths)
    ended = found is not None and found.state.final
    return ended and claim.standing(paths) is not Standing.ALIVE


def remove(home: Home, names: Sequence[str]) -> None:
    """Remove the folders of runs."""
    removal.discard(home.runs, *names)
    removal.empty(home.runs, wait=True)


def tally(home: Home) -> Tally:
    """Return what was removed by the policy so far."""
    try:
        found = files.read_below(home.root, home.pruned.name, MOST_TALLY_BYTES)
        return msgspec.json.decode(found, type=Tally)
    except (OSError, ValueError):
        return Tally()


def by_policy(
    root: Path,
    keep: Retention,
    now: float | None = None,
    free: Callable[[Path], float] = free,
    *,
    spare: str = "",
) -> list[str]:
    """Apply the policy, at most once a day, and look at the free space, each time.

    The run ``spare`` stays.

    Return what the user is told: of the policy when it first removes something, of
    little space always.

    Raises:
        ConfigError: there is too little space for a run.
    """
    home, now = make(root), time.time() if now is None else now
    said = warnings_of(home)
    if not keep.endless:
        # A full or a read-only disk is no reason not to try the run.
        with suppress(OSError, RaiError):
            said += _daily(home, keep, now, spare)
        with suppress(OSError, RaiError):
            said += _space(home, now, free, spare)
    left = free(home.root)
    if left < FLOOR_BYTES:
        text = f"only {left / MIB:.0f} MiB are free on the disk of {home.root}"
        least = f"{FLOOR_BYTES // MIB} MiB"
        hint = (
            f"a run needs at least {least}: remove files, or runs by `rai prune --older"
            " 1d`, or set RAI_HOME to a folder on another disk"
        )
        raise ConfigError(Problem(text, hint=hint), reason=Reason.DISK_FULL, advice="")
    return said


def _daily(home: Home, keep: Retention, now: float, spare: str) -> list[str]:
    before = tally(home)
    if 0 <= now - before.looked_at < DAY_S:
        return []
    # A run must be too old on two days: a clock that is wrong once removes nothing.
    today = min(now, before.looked_at + DAY_S)
    what = carry_out(home, plan(home, keep, today, spare_latest=True), spare)
    after = Tally(
        now, before.runs + len(what.runs), before.freed_bytes + what.freed_bytes
    )
    files.write(home.pruned, msgspec.json.encode(after))
    if before.runs or not what.runs:
        return []
    return [
        f"Removed {_count(what)}: the settings keep_for and keep_size say what is kept."
        " `rai tag RUN NAME` keeps a run. This is said only once."
    ]


def _space(
    home: Home, now: float, free: Callable[[Path], float], spare: str
) -> list[str]:
    left = free(home.root)
    if left >= LOW_BYTES:
        return []
    ended = _measured(home, _ended(home))
    found = retention.for_space(ended, LOW_BYTES - left, now)
    if not found:
        return []
    what = carry_out(home, _removal(home, found, ()), spare)
    if not what.runs:
        return []
    space = f"{left / GIB:.1f} GiB were free"
    return [f"Removed {_count(what)} since only {space} on the disk of {home.root}."]


def _count(what: Removal) -> str:
    number = len(what.runs)
    freed = f"{what.freed_bytes / MIB:,.0f} MiB"
    return f"{number} old run{'' if number == 1 else 's'} ({freed})"


def _removal(home: Home, found: Iterable[KeptRun], data: Sequence[str]) -> Removal:
    ended = tuple(found)
    freed = sum(entry.size_bytes or 0 for entry in ended)
    freed += sum(removal.size_bytes(home.data / name) for name in data)
    return Removal(ended, tuple(data), freed)
