"""Which processes are shown, and what is said of how each ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from nvprof.stream import Header


class Process(NamedTuple):
    """A process, or what it was until an exec, and its file."""

    header: Header
    path: Path

    @property
    def pid(self) -> int:
        """Give its number."""
        return self.header.pid

    @property
    def command(self) -> str:
        """Give its command line."""
        return " ".join(self.header.command)


def shown(found: Sequence[Process], launched: int, every: bool) -> list[Process]:
    """Choose every process, or those up to the launched one, as `announced` did.

    A wrapper never uses CUDA, so all below it are shown. A shell gives its own process
    to its last command, so those before it are shown too. The order is that of the
    moments in which they began to use CUDA.
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
    """Tell whether a process that starts is announced, as it will likely be shown."""
    return every or pid == launched or launched not in before


def ending(
    process: Process,
    later: Sequence[Process],
    launched: int,
    status: int,
    alive: bool,
) -> str | None:
    """Say how a process ended where its figures may lack something."""
    until = "what it did last may be missing"
    if process.header.ended:
        return None
    if any(each.pid == process.pid for each in later):
        return f"The process became another program (exec); {until}."
    if process.pid == launched and status < 0:
        return f"The application ended by signal {-status} ({named(-status)}); {until}."
    if alive and process.pid != launched:
        return "The process still runs; what it did so far is shown."
    return f"The process ended without CUDA's orderly end; {until}."


def named(number: int) -> str:
    """Name a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def verdict(status: int) -> str | None:
    """Say, as nvprof did, that the application failed."""
    if status > 0:
        return f"Application returned non-zero code {status}"
    if status < 0:
        return f"Application received signal {128 - status}"
    return None
