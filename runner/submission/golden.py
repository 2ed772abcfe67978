"""The judge's own files, as they were released.

`runner/judge/SHA256SUMS` lists them; `python tools/golden.py` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

FOLDER = Path(__file__).parents[1] / "judge"
SUMS = "SHA256SUMS"


class GoldenFiles(Struct, frozen=True):
    """The judge's files by name, relative to its folder, and a digest of them all."""

    files: Mapping[str, bytes]
    digest: str

    def matching(self, patterns: tuple[str, ...]) -> dict[str, bytes]:
        """Return the files whose names match a pattern."""
        raise NotImplementedError


def read(folder: Path = FOLDER) -> GoldenFiles:
    """Read and verify the judge's files.

    Raises:
        EngineError: a file differs from its digest, is absent, or is not listed.
    """
    raise NotImplementedError
