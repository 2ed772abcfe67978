"""Processes that this one did not start, the one that started it, and a copy of it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

MOST = 1000
"""More processes than this are not looked at."""

_UTIME, _CUTIME, _RSS = 11, 13, 21
"""Places in /proc/PID/stat after the program's name."""

Usage = tuple[float | None, int | None]
"""Seconds of CPU so far and bytes of memory now; None where that is not known."""

PR_SET_PDEATHSIG = 1


def kill_marked(name: str, value: str) -> None:
    """Kill this machine's processes that have ``name=value`` in their environment.

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


def used(pid: int) -> Usage:
    """Return what a process and its descendants use, with those that they waited for.

    Memory that several share is counted for each.
    """
    found = [stat for one in (pid, *descendants(pid)[:MOST]) if (stat := _stat(one))]
    if not found:
        return None, None
    ticks = sum(int(word) for stat in found for word in stat[_UTIME : _CUTIME + 2])
    pages = sum(int(stat[_RSS]) for stat in found)
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return []
    # The name may hold anything, a parenthesis too.
    return text.rpartition(")")[2].split()


def end_with_parent() -> None:
    """Have the kernel send this process SIGTERM when its parent ends.

    A shell that is ended leaves its programs alone, and a CI system kills these
    without a warning later (prctl(2), PR_SET_PDEATHSIG). Nothing is done where the
    kernel cannot do this. Programs that this process starts are not told.
    """
    import ctypes  # few need it

    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:  # it ended before it was asked for
        os.kill(os.getpid(), signal.SIGTERM)


def apart(call: Callable[[], object]) -> bool:
    """Do a call in a copy of this process; return whether it raised nothing.

    This process may have no other threads. What is printed there is not shown; whoever
    needs the error makes the call again.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(null, stream)
            call()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0
