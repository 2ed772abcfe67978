"""How much an archive may hold."""

from __future__ import annotations

from msgspec import Struct

from runner.core.limits import Limits
from runner.core.units import GIB, MIB


class Caps(Struct, frozen=True):
    """Ceilings of one archive; all bytes are uncompressed."""

    total_bytes: int
    members: int
    file_bytes: int


UPLOAD = Caps(total_bytes=500 * MIB, members=20_000, file_bytes=100 * MIB)
"""What a project may send; settings change the bytes."""

BUILD_FILES = 100_000
"""How many files and folders a build folder may have."""

SPARE_BYTES = GIB
"""What data files leave free on a disk."""


def build_caps(limits: Limits) -> Caps:
    """Return the ceilings of a build folder.

    The disk limit is checked at intervals, so a small excess is accepted.
    """
    most = limits.disk_bytes + limits.disk_bytes // 4
    return Caps(total_bytes=most, members=BUILD_FILES, file_bytes=most)


BUILD = build_caps(Limits())
"""What a build folder may bring back, unless its run had other limits."""
