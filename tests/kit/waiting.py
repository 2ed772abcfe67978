"""Wait for something that happens soon, in another thread or process; find those."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

LOOK_S = 0.02
SOON_S = 60.0
"""More than anything takes on a machine that is busy with other tests."""

T = TypeVar("T")


def until(
    found: Callable[[], T | None],
    why: str = "it did not happen in time",
    within_s: float = SOON_S,
    look_s: float = LOOK_S,
) -> T:
    """Ask again until there is something, and return it; fail with ``why``."""
    by = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < by, why
        time.sleep(look_s)
    return value


def running(command: str) -> list[int]:
    """Return the ids of the processes with a command line, its words as they stand."""
    words = b"".join(word.encode() + b"\0" for word in command.split())
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [int(file.parent.name)] if file.read_bytes() == words else []
        except OSError:  # others' processes come and go
            continue
    return found
