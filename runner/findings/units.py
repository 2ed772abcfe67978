"""Printed numbers and units; decimal arithmetic, so that 79464.3 ms is 79.4643 s."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeVar

UNSIGNED = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
"""A plain number, as a pattern: short enough to be safe to convert."""

EXPONENTS = {"ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0, "sec": 0}

_TIME = re.compile(rf"({UNSIGNED})\s*(ns|us|µs|ms|s)")

Item = TypeVar("Item")


def scaled(number: str, unit: str) -> float:
    """Return a printed number of units as the nearest float of seconds."""
    return float(Decimal(number).scaleb(EXPONENTS[unit]))


def seconds(text: str) -> float:
    """Read a time as nvprof prints it: ``16.602ms``, ``992ns``, ``1.88s``."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a time with a unit (ns, us, ms, s): {text!r}")
    return scaled(*match.groups())


def keep(items: list[Item], item: Item, limit: int) -> None:
    """Append, but past the limit let the newest item take the last place.

    So a flood of figures costs no memory, and a run's last word is still there.
    """
    if len(items) < limit:
        items.append(item)
    else:
        items[-1] = item
