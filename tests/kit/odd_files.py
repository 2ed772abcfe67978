"""Files and folders that no sound project has."""

from __future__ import annotations

import os
from pathlib import Path


def sparse(file: Path, size: int, start: bytes = b"") -> None:
    """Make a file of a size that takes next to no space."""
    file.write_bytes(start)
    os.truncate(file, size)


def deep(folder: Path, depth: int, file: str = "file") -> None:
    """Make folders in folders, deeper than a path can name, and a file in the last."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 8, dir_fd=here)
        inner = os.open("d" * 8, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
