"""How much an archive may hold."""

from __future__ import annotations

from msgspec import Struct

from runner.core import Limits


class Caps(Struct, frozen=True):
    """Ceilings of one archive; all bytes are uncompressed."""

    total_bytes: int
    members: int
    file_bytes: int


def build_caps(limits: Limits) -> Caps:
    """Return the ceilings of a build folder.

    The disk limit is checked at intervals, so a small excess is accepted.
    """
    most = limits.disk_bytes + limits.disk_bytes // 4
    return Caps(total_bytes=most, members=100_000, file_bytes=most)


UPLOAD = Caps(total_bytes=500_000_000, members=20_000, file_bytes=100_000_000)
"""What a project may send."""

BUILD = build_caps(Limits())
"""What a build folder may bring back, unless its run had other limits."""
