"""The processes that use CUDA, while they live."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class Users:
    """Processes by their numbers, and their births, for numbers are used again."""

    def __init__(self) -> None:
        self._born: dict[int, str] = {}

    def began(self, pid: int) -> None:
        """Note a process that uses CUDA from now on."""
        born = birth(pid)
        if born is not None:
            self._born[pid] = born

    def ended(self, pid: int) -> None:
        """Forget a process that has written all that it will."""
        self._born.pop(pid, None)

    def left(self) -> list[int]:
        """Give those that live."""
        return [pid for pid, born in self._born.items() if birth(pid) == born]

    def kill(self, number: int) -> None:
        """Send a signal to those that live."""
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def birth(pid: int) -> str | None:
    """Give when a process was started, in the kernel's ticks; None once it is over."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The program's name, in parentheses, may have anything in it.
    state, *rest = text.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
