"""Write times, sizes and rates with nvprof's digits and units."""

from __future__ import annotations

from collections.abc import Iterable

TIMES: dict[str, int] = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Each unit of time, and the nanoseconds in it."""

SIZES: dict[str, int] = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""Each unit of memory, and the bytes in it."""

WIDTH = 8
"""Columns that a number and its unit fill."""


def filled(value: float, width: int) -> str:
    """Write a number with as many decimals as fill `width` columns."""
    decimals = max(0, width - 1 - len(str(int(value))))
    text = f"{value:.{decimals}f}"
    # Rounding may have made it a digit longer.
    return text if len(text) <= width else f"{value:.{max(0, decimals - 1)}f}"


def time(ns: int) -> str:
    """Write a time in the unit that suits it: `992ns`, `1.1200us`, `3.09439s`."""
    if ns < 1_000:
        return f"{ns}ns"
    for unit in ("us", "ms"):
        text = filled(ns / TIMES[unit], WIDTH - len(unit))
        if float(text) < 1_000:
            return text + unit
    return filled(ns / TIMES["s"], WIDTH - 1) + "s"


def size(count: float) -> str:
    """Write bytes in the unit that suits them: `0B`, `64.000KB`, `97.656MB`."""
    if count < 1_024:
        return f"{count:.0f}B"
    for unit in ("KB", "MB"):
        text = filled(count / SIZES[unit], WIDTH - 2)
        if float(text) < 1_024:
            return text + unit
    return filled(count / SIZES["GB"], WIDTH - 2) + "GB"


def rate(count: int, ns: int) -> float:
    """Give bytes a second, nought where no time went by."""
    return count * 1e9 / ns if ns else 0.0


def bare(value: float) -> str:
    """Write a number of a column whose unit stands in its head: `69.02481`."""
    if 0 < value < 0.001:
        return f"{value:.2e}"
    return filled(value, WIDTH)


def common(values: Iterable[int], units: dict[str, int]) -> str:
    """Choose a column's unit: the greatest that its greatest value reaches.

    Seconds and gigabytes are left out, so that six decimals keep a nanosecond.
    """
    greatest = max(values, default=0)
    names = list(units)[:3]
    reached = [name for name in names if greatest >= units[name]]
    return reached[-1] if reached else names[0]


def column(text: object, width: int = 10) -> str:
    """Set a cell to the right; one that is too wide is kept apart by a blank."""
    cell = f"{text:>{width}}"
    return cell if cell.startswith(" ") else f" {cell}"
