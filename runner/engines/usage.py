"""What folders and files take of a disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from runner import trees

BLOCK_BYTES = 512
ENTRY_BYTES = 4096
"""What a file, folder or link costs at least, however small it is."""


def used(folders: Iterable[Path], most_bytes: int) -> int:
    """Return the bytes that some folders take together, each file once.

    Counting ends above ``most_bytes``.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder in folders:
        most_names = (most_bytes - total) // ENTRY_BYTES + 1
        try:
            for entry in trees.entries(folder, most=most_names):
                total += cost(entry.info, seen)
                if total > most_bytes:
                    return total
        except trees.TooManyError:
            return most_bytes + 1
    return total


def cost(info: os.stat_result, seen: set[tuple[int, int]]) -> int:
    """Return the bytes that a file takes, unless it is one of ``seen``."""
    if info.st_nlink != 1:
        identity = (info.st_dev, info.st_ino)
        if identity in seen and not stat.S_ISDIR(info.st_mode):
            return 0
        seen.add(identity)
    return max(info.st_size, info.st_blocks * BLOCK_BYTES, ENTRY_BYTES)
