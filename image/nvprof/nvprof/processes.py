"""Select the processes to show, and describe how each ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nvprof.stream import Header


class Process(NamedTuple):
    """A process, or its part before an exec, and its recording."""

    header: Header
    path: Path

    @property
    def pid(self) -> int:
        """Return its process ID."""
        return self.header.pid

    @property
    def command(self) -> str:
        """Return its command line."""
        return " ".join(self.header.command)


def shown(found: Sequence[Process], launched: int, every: bool) -> list[Process]:
    """Return all processes, or those up to the launched one, as `announced` does.

    A wrapper does not use CUDA itself, so all processes below it are shown. A shell
    replaces itself with its last command, so earlier processes are shown too. They are
    ordered by the time at which they started to use CUDA.
    """
    ordered = sorted(found, key=lambda each: (each.header.started_ns, each.path.name))
    chosen: list[Process] = []
    before: set[int] = set()
    for each in ordered:
        if announced(each.pid, launched, every, before):
            chosen.append(each)
        before.add(each.pid)
    return chosen


def announced(pid: int, launched: int, every: bool, before: set[int]) -> bool:
    """Return whether to announce a starting process, since it is likely shown."""
    return every or pid == launched or launched not in before


def ending(
    process: Process,
    later: Sequence[Process],
    launched: int,
    status: int,
    alive: bool,
) -> str | None:
    """Return a warning if a process's last activities may be missing."""
    until = "its last activities may be missing"
    if process.header.ended:
        return None
    if any(each.pid == process.pid for each in later):
        return f"The process was replaced by another program (exec); {until}."
    if process.pid == launched and status < 0:
        return f"The application was killed by {named(-status)} ({-status}); {until}."
    if alive and process.pid != launched:
        return "The process is still running; its activities until now are shown."
    return f"The process did not exit normally; {until}."


def named(number: int) -> str:
    """Return a signal's name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def verdict(status: int) -> str | None:
    """Return nvprof's message for a failed application."""
    if status > 0:
        return f"Application returned non-zero code {status}"
    if status < 0:
        return f"Application received signal {128 - status}"
    return None
