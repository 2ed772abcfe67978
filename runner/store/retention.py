"""Decide which runs to remove; nothing here reads a file or a clock."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from runner.core.units import DAY_S


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


class KeptFile(Struct, frozen=True):
    """Something that is kept for later runs; nothing removes it while it is in use."""

    name: str
    used_at: float
    size_bytes: int
    in_use: bool = False


def unneeded(files: Sequence[KeptFile], most_bytes: float, before: float) -> list[str]:
    """Return what was last used before a time, then the oldest until the rest fits."""
    left, found = sum(file.size_bytes for file in files), []
    for file in sorted(files, key=lambda file: (file.used_at, file.name)):
        if not file.in_use and (file.used_at < before or left > most_bytes):
            found.append(file.name)
            left -= file.size_bytes
    return found


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
