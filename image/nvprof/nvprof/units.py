"""Format times, sizes and rates with nvprof's digits and units."""

from __future__ import annotations

from collections.abc import Iterable

TIMES: dict[str, int] = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units of time, in nanoseconds."""

SIZES: dict[str, int] = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""Units of memory, in bytes."""

WIDTH = 8
"""The width of a number with its unit."""


def filled(value: float, width: int) -> str:
    """Format a number with as many decimals as fill `width` columns."""
    decimals = max(0, width - 1 - len(str(int(value))))
    text = f"{value:.{decimals}f}"
    # Rounding may add a digit.
    return text if len(text) <= width else f"{value:.{max(0, decimals - 1)}f}"


def time(ns: int) -> str:
    """Format a time: `992ns`, `1.1200us`, `3.09439s`."""
    if ns < 1_000:
        return f"{ns}ns"
    for unit in ("us", "ms"):
        text = filled(ns / TIMES[unit], WIDTH - len(unit))
        if float(text) < 1_000:
            return text + unit
    return filled(ns / TIMES["s"], WIDTH - 1) + "s"


def size(count: float) -> str:
    """Format bytes: `0B`, `64.000KB`, `97.656MB`."""
    if count < 1_024:
        return f"{count:.0f}B"
    for unit in ("KB", "MB"):
        text = filled(count / SIZES[unit], WIDTH - 2)
        if float(text) < 1_024:
            return text + unit
    return filled(count / SIZES["GB"], WIDTH - 2) + "GB"


def rate(count: int, ns: int) -> float:
    """Return bytes per second, or 0 for no time."""
    return count * 1e9 / ns if ns else 0.0


def bare(value: float) -> str:
    """Format a number of a column with a common unit: `69.02481`."""
    if 0 < value < 0.001:
        return f"{value:.2e}"
    return filled(value, WIDTH)


def common(values: Iterable[int], units: dict[str, int]) -> str:
    """Return a column's unit: the largest that its largest value reaches.

    Seconds and gigabytes are excluded, so that six decimals keep a nanosecond.
    """
    greatest = max(values, default=0)
    names = list(units)[:3]
    reached = [name for name in names if greatest >= units[name]]
    return reached[-1] if reached else names[0]


def column(text: object, width: int = 10) -> str:
    """Align a cell to the right; separate a cell that is too wide by a space."""
    cell = f"{text:>{width}}"
    return cell if cell.startswith(" ") else f" {cell}"
