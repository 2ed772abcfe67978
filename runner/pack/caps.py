"""How much an archive may hold."""

from __future__ import annotations

from runner.model import GIB
from runner.model.noun import noun


@noun
class Caps:
    """Ceilings of one archive; all bytes are uncompressed."""

    total_bytes: int
    members: int
    file_bytes: int


UPLOAD = Caps(total_bytes=500_000_000, members=20_000, file_bytes=100_000_000)
"""What a project may send."""

BUILD = Caps(total_bytes=2 * GIB, members=100_000, file_bytes=2 * GIB)
"""What a build folder may bring back."""
