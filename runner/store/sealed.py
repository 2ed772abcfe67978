"""The record of a run of which nothing is known but its parcel."""

from __future__ import annotations

from msgspec.structs import replace

from runner import files
from runner.core import RunRecord, RunRequest, State
from runner.core.request import MOST_PARCEL_BYTES, from_json
from runner.store import claim, handed
from runner.store.paths import RunPaths


def parcel_of(paths: RunPaths) -> RunRequest | None:
    """Return the parcel of a run; None if there is none that can be read."""
    try:
        name = paths.parcel.name
        return from_json(files.read_below(paths.root, name, MOST_PARCEL_BYTES))
    except (OSError, ValueError):
        return None


def begun(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that was sealed and never begun."""
    found = parcel_of(paths)
    try:
        created_at = paths.parcel.stat().st_mtime
    except OSError:
        return None
    if found is None:
        return None
    return RunRecord(
        paths.id,
        found.project,
        found.spec_file,
        created_at,
        git=found.git,
        env_given=found.env_given,
        only=found.only,
        title=found.title,
        repeat=found.repeat,
    )


def waiting(paths: RunPaths) -> RunRecord | None:
    """Return the record of a run that waits at another place; None of any other."""
    if handed.read(paths) is None:
        holder = claim.holder(paths)
        if holder is None or holder.place == claim.HERE or holder.run != paths.id:
            return None
    found = begun(paths)
    return None if found is None else replace(found, state=State.QUEUED)
