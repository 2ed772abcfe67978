"""What of a project would be sent, and when it was changed last."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from runner.archive.contents import MemberKind, Survey

Signature = tuple[int, ...]
"""It ends with the time of the last change; () for what is not there."""

TICK_NS, LATER_NS = 2 * 10**7, 10**9
"""How far apart changes surely get different times; how long a look may take."""


class Snapshot(Struct, frozen=True):
    """The files that would be sent, and all folders that may hold such files.

    ``taken_ns`` is when the first of them was looked at.
    """

    files: Mapping[Path, Signature]
    folders: Mapping[Path, Signature]
    taken_ns: int

    def stale(self) -> bool:
        """Whether a file or a folder may have changed: what is sent may be another."""
        both = (*self.files.items(), *self.folders.items())
        return any(_signature(p) != old or self._unsettled(old) for p, old in both)

    def _unsettled(self, signature: Signature) -> bool:
        """Whether it changed so late that a later change may have the same time."""
        return (
            bool(signature) and 0 <= signature[-1] - self.taken_ns + TICK_NS < LATER_NS
        )


def take(found: Survey, build_file: Path) -> Snapshot:
    """Return when what was found, and the build file, was changed last.

    A project that is gone has no files.
    """
    kinds = {found.project / member.name: member.kind for member in found.members}
    files = [path for path, kind in kinds.items() if kind is not MemberKind.FOLDER]
    folders = [path for path, kind in kinds.items() if kind is MemberKind.FOLDER]
    taken_ns = time.time_ns()
    return Snapshot(
        {path: _signature(path) for path in (build_file, *files)},
        {path: _signature(path) for path in (found.project, *folders)},
        taken_ns,
    )


def changed(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return the files that differ, and those that only one of the two has."""
    paths = before.files.keys() | after.files.keys()
    return sorted(p for p in paths if before.files.get(p) != after.files.get(p))


def _signature(path: Path) -> Signature:
    """Return what changes with a file; a folder's changes with the names in it."""
    try:
        found = os.lstat(path)
    except OSError:
        return ()
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        return (kind, found.st_ino, found.st_mtime_ns)
    executable = found.st_mode & stat.S_IXUSR
    return (kind, executable, found.st_ino, found.st_size, found.st_mtime_ns)
