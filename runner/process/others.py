"""Find processes that this one did not start itself."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def marked(name: str, value: str) -> list[int]:
    """Return this machine's processes that have ``name=value`` in their environment.

    This finds processes that left their group and session, if this user may see them.
    """
    mark, found = f"{name}={value}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def kill_marked(name: str, value: str) -> None:
    """Kill every process that is so ``marked``."""
    for pid in marked(name, value):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the ids of a process's descendants, nearest first; Linux only."""
    found: list[int] = []
    todo = [pid]
    while todo:
        below = _children(todo.pop(0))
        found += below
        todo += below
    return found


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]
