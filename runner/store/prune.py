"""Decide which runs and data files to remove, and remove them."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from runner.core import GIB, MIB, Problem, Reason
from runner.core.errors import ConfigError, RaiError
from runner.core.quantities import DAY_S, size_text
from runner.pack import datafiles
from runner.pack.data_rules import free
from runner.store import claim, removal, run_files, runs
from runner.store.claim import Standing
from runner.store.home import make, newest, warnings_of
from runner.store.paths import Home, RunPaths
from runner.system import files


class KeptRun(Struct, frozen=True):
    """A run that has ended, and the space that it takes, once that is measured."""

    id: str
    project: str
    created_at: float
    ended_at: float
    tag: str = ""
    size_bytes: int | None = None


class Retention(Struct, frozen=True):
    """How long ended runs are kept, and how much they may take together.

    ``data_bytes`` is how much data files may take, which are kept as long as runs.
    """

    age_s: float = math.inf
    size_bytes: float = math.inf
    data_bytes: float = math.inf

    @property
    def endless(self) -> bool:
        """Whether nothing is ever removed."""
        return all(map(math.isinf, (self.age_s, self.size_bytes, self.data_bytes)))


def expired(
    runs: Sequence[KeptRun], keep: Retention, now: float, *, spare_latest: bool = False
) -> list[KeptRun]:
    """Return the ended runs to remove: those too old, then the oldest until all fit.

    A tagged run is never among them. ``spare_latest`` keeps the latest run of each
    project, unless the runs do not fit otherwise.
    """
    oldest = sorted(runs, key=_ended)
    latest = _latest(oldest) if spare_latest else set[str]()
    free = [run for run in oldest if not run.tag]
    removed = [
        run
        for run in free
        if now - _ended(run)[0] > keep.age_s and run.id not in latest
    ]
    gone = {run.id for run in removed}
    left = sum(map(_size, oldest)) - sum(map(_size, removed))
    rest = [run for run in free if run.id not in gone]
    for run in sorted(rest, key=lambda run: (run.id in latest, _ended(run))):
        if left <= keep.size_bytes:
            break
        removed.append(run)
        left -= _size(run)
    return removed


def kept_by_tag(runs: Sequence[KeptRun], keep: Retention, now: float) -> list[KeptRun]:
    """Return the tagged runs that ``expired`` would return if they had no tags."""
    untagged = expired([replace(run, tag="") for run in runs], keep, now)
    gone = {run.id for run in untagged}
    return [run for run in runs if run.tag and run.id in gone]


def for_space(
    runs: Sequence[KeptRun], wanted_bytes: float, now: float
) -> list[KeptRun]:
    """Return the oldest runs that together take ``wanted_bytes``, or all that may go.

    Those that ended within the last day, the latest of each project, and tagged ones
    stay.
    """
    oldest = sorted(runs, key=_ended)
    latest = _latest(oldest)
    removed: list[KeptRun] = []
    for run in oldest:
        if wanted_bytes <= 0:
            break
        if not run.tag and run.id not in latest and now - _ended(run)[0] > DAY_S:
            removed.append(run)
            wanted_bytes -= _size(run)
    return removed


def _latest(oldest: Sequence[KeptRun]) -> set[str]:
    return set({run.project: run.id for run in oldest}.values())


def _ended(run: KeptRun) -> tuple[float, str]:
    return (run.ended_at, run.id)


def _size(run: KeptRun) -> int:
    return run.size_bytes or 0


_NAME = re.compile(r"(?:[0-9a-f]{32}|url-[0-9a-f]{32})")
"""The names of rai's own folders of data files."""


def unneeded_data(folder: Path, most_bytes: float, before: float) -> tuple[str, ...]:
    """Return what was last used before a time, then the oldest until the rest fits."""
    old, found = _oldest_first(folder), []
    left = sum(size for _, _, size in old)
    for used_at, name, size in old:
        if used_at < before or left > most_bytes:
            found.append(name)
            left -= size
    return tuple(found)


def remove_data(folder: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Remove data files that no run uses; return those that were removed."""
    gone = []
    for name in names:
        with datafiles.removing(folder / name) as may:
            if may:
                removal.discard(folder, name)
                gone.append(name)
    removal.empty(folder, wait=True)
    return tuple(gone)


def make_room(folder: Path, most_bytes: float, wanted: int) -> None:
    """Remove the oldest unused files until more bytes fit among those that are kept.

    Raises:
        ConfigError: they do not fit, since runs use the others.
    """
    if math.isinf(most_bytes):
        return
    old = _oldest_first(folder)
    left = sum(size for _, _, size in old) + wanted
    for _, name, size in old:
        if left <= most_bytes:
            return
        if remove_data(folder, [name]):
            left -= size
    if left > most_bytes:
        text = (
            f"the data files that active runs use would take more than"
            f" {size_text(most_bytes)}, the setting keep_size"
        )
        raise ConfigError(Problem(text, hint="raise it, or wait for the other runs"))


def _oldest_first(folder: Path) -> list[tuple[float, str, int]]:
    """Return when each data file was used, its name and its bytes; no links."""
    found = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(OSError):
                if _NAME.fullmatch(path.name) and not path.is_symlink():
                    size = removal.size_bytes(path)
                    found.append((path.stat().st_mtime, path.name, size))
    return sorted(found)


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
    ended = _ended_runs(home)
    if not math.isinf(keep.size_bytes):
        ended = _measured(home, ended)
    found = expired(ended, keep, now, spare_latest=spare_latest)
    found = _measured(home, found)
    tagged = kept_by_tag(ended, keep, now)
    before = now - max(keep.age_s, DAY_S)
    data = unneeded_data(home.data, keep.data_bytes, before)
    return replace(_removal(home, found, data), tagged=tuple(tagged))


def projects(home: Home) -> set[str]:
    """Return the folders of the projects that have runs here."""
    return {run.project for run in newest(home, lambda _: True)}


def _ended_runs(home: Home) -> list[KeptRun]:
    found = []
    for run in newest(home, lambda run: run.state.final):
        paths, began = home.run(run.id), run.created_at
        ended = began if run.ended_at is None else run.ended_at
        tag = run_files.read_tag(paths) or COUNTED * runs.measurement_counts(paths)
        found.append(KeptRun(run.id, run.project, began, ended, tag))
    return found


def _measured(home: Home, found: Iterable[KeptRun]) -> list[KeptRun]:
    return [
        replace(run, size_bytes=removal.size_bytes(home.run(run.id).root))
        for run in found
    ]


def apply(home: Home, what: Removal, spare: str = "") -> Removal:
    """Remove runs and data files; return it without what came into use meanwhile.

    The run ``spare`` stays.
    """

    def goes(run: KeptRun) -> bool:
        paths = home.run(run.id)
        kept = run_files.read_tag(paths) or runs.measurement_counts(paths)
        return run.id != spare and over(paths) and not kept

    gone = tuple(run for run in what.runs if goes(run))
    remove(home, [run.id for run in gone])
    data = remove_data(home.data, what.data)
    kept = sum(map(_size, what.runs)) - sum(map(_size, gone))
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
    return files.read_json(home.pruned, MOST_TALLY_BYTES, Tally) or Tally()


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
    what = apply(home, plan(home, keep, today, spare_latest=True), spare)
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
    ended = _measured(home, _ended_runs(home))
    if not (found := for_space(ended, LOW_BYTES - left, now)):
        return []
    what = apply(home, _removal(home, found, ()), spare)
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
    freed = sum(map(_size, ended))
    freed += sum(removal.size_bytes(home.data / name) for name in data)
    return Removal(ended, tuple(data), freed)
