"""What the folders of two runs hold that is compared beside their records."""

from __future__ import annotations

from collections.abc import Mapping

from runner import archive, files
from runner.core import RunRecord
from runner.core.caps import Caps
from runner.core.errors import RaiError
from runner.core.units import MIB
from runner.report.diff import DiffSide
from runner.store import tags
from runner.store.paths import RunPaths

MOST_SPEC_BYTES = 1 << 20

CAPS = Caps(total_bytes=256 * MIB, members=20_000, file_bytes=256 * MIB)
"""Larger projects are compared as wholes, by the checksums of their archives."""


def of(
    before: RunPaths, after: RunPaths, old: RunRecord, new: RunRecord
) -> tuple[DiffSide, DiffSide]:
    """Return both runs with their build files and the checksums of their files.

    What cannot be read, as it was removed or is too large, is None.
    """
    same = old.archive_sha256 == new.archive_sha256 and bool(old.archive_sha256)
    one: Mapping[str, str] | None = {}
    other: Mapping[str, str] | None = {}
    if not same:
        one, other = _files(before), _files(after)
    return (
        DiffSide(old, tags.read(before), _spec(before), one),
        DiffSide(new, tags.read(after), _spec(after), other),
    )


def _spec(paths: RunPaths) -> str | None:
    """Return the text of a run's build file."""
    try:
        data = files.read_below(paths.root, paths.spec.name, MOST_SPEC_BYTES)
    except OSError:
        return None
    return data.decode(errors="replace")


def _files(paths: RunPaths) -> dict[str, str] | None:
    """Return a checksum of each file of a run's project."""
    try:
        return archive.checksums(paths.source, CAPS)
    except (OSError, RaiError):
        return None
