"""Track the living processes that use CUDA."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Users:
    """Processes by ID and start time, since IDs are reused."""

    def __init__(self) -> None:
        self._born: dict[int, str] = {}

    def began(self, pid: int) -> None:
        """Add a process that started to use CUDA."""
        born = birth(pid)
        if born is not None:
            self._born[pid] = born

    def ended(self, pid: int) -> None:
        """Remove a process that has finished its recording."""
        self._born.pop(pid, None)

    def left(self) -> list[int]:
        """Return the processes that are still alive."""
        return [pid for pid, born in self._born.items() if birth(pid) == born]

    def kill(self, number: int) -> None:
        """Send a signal to the processes that are still alive."""
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def birth(pid: int) -> str | None:
    """Return a process's start time in clock ticks; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The program's name, in parentheses, may contain any characters.
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
