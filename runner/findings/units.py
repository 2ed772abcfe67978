"""Printed numbers with units, in decimals: 79464.3 ms is exactly 79.4643 s."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

UNSIGNED = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
"""The pattern of a plain number, short enough to be safe to convert."""

EXPONENTS = {"ns": -9, "us": -6, "µs": -6, "ms": -3, "s": 0, "sec": 0}

Item = TypeVar("Item")


def scaled(number: str, unit: str) -> float:
    """Return a printed number of units in seconds, as the nearest float."""
    return float(Decimal(number).scaleb(EXPONENTS[unit]))


def keep(items: list[Item], item: Item, limit: int) -> int:
    """Append an item; at the limit let it replace the last one.

    So a flood of figures costs no memory, and the newest is always kept. Return how
    many were left out for it: 1 at the limit, else 0.
    """
    if len(items) < limit:
        items.append(item)
        return 0
    items[-1] = item
    return 1
