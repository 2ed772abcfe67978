"""Wait for something that happens soon, in another thread or process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LOOK_S = 0.02
SOON_S = 60.0
"""More than anything takes on a machine that is busy with other tests."""

T = TypeVar("T")


def until(
    found: Callable[[], T | None],
    why: str = "it did not happen in time",
    within_s: float = SOON_S,
) -> T:
    """Ask again until there is something, and return it; fail with ``why``."""
    by = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < by, why
        time.sleep(LOOK_S)
    return value
