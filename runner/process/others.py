"""Find processes that this one did not start itself."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def kill_marked(name: str, value: str) -> None:
    """Kill every process of this machine that has ``name=value`` in its environment.

    This finds processes that left their group and session, if this user may see them.
    """
    mark = f"{name}={value}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


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
