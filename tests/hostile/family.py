"""The processes that a process started, by any of its threads."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    found: list[int] = []
    threads: list[Path] = []
    with suppress(OSError):  # it may have ended
        threads += Path(f"/proc/{pid}/task").glob("*/children")
    for file in threads:
        with suppress(OSError):
            found += map(int, file.read_text().split())
    return found


def below(pid: int) -> list[int]:
    """Return the ids of all its descendants, nearest first."""
    found = children(pid)
    for each in found:
        found += children(each)
    return found
