"""What a process and those below it use now, from Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path

from runner.process.others import descendants

MOST = 1000
"""More processes than this are not looked at."""

_UTIME, _CUTIME, _RSS = 11, 13, 21
"""Places in /proc/PID/stat after the program's name."""

Usage = tuple[float | None, int | None]
"""Seconds of CPU so far and bytes of memory now; None where that is not known."""


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
