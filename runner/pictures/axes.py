"""The axis of a picture's values: its range, and marks with plain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

from runner.pictures import units
from runner.pictures.canvas import (
    Axes,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
)
from runner.pictures.labels import fitted

SMALLEST = 1e-15
"""What is smaller has no place on a logarithmic axis."""

MARKS = 4
_NEAR = 1.3

MARK_WIDTH, SMALL = 84, 12.0

EDGE = 0.05
"""Nearer to an end than this share of the axis, a mark's text is to its inner side."""


def drawable(value: float | None, *, logarithmic: bool) -> bool:
    """Return whether a value has a place on an axis."""
    if value is None or not isfinite(value) or abs(value) > units.LARGEST:
        return False
    return not logarithmic or value >= SMALLEST


def extent(values: Iterable[float], *, logarithmic: bool) -> tuple[float, float]:
    """Return the range of an axis for bars, which begin at 0 or at a power of ten."""
    found = list(values) or [1.0]
    low, high = min(found), max(found)
    if not logarithmic:
        low, high = min(low, 0.0), max(high, 0.0)
        return (low * 1.03, high * 1.03) if high > low else (0.0, 1.0)
    first = 10.0 ** floor(log10(low))
    return (first if low > first * _NEAR else first / 10), high * _NEAR


def marks(low: float, high: float, *, logarithmic: bool) -> list[float]:
    """Return round values from low to high, as matplotlib finds them."""
    for locator in _locators(low, high, logarithmic=logarithmic):
        found = [at for at in locator.tick_values(low, high) if low <= at <= high]
        if 2 <= len(found) <= MARKS + 2:
            return found
    return found


def _locators(
    low: float, high: float, *, logarithmic: bool
) -> Sequence[LogLocator | MaxNLocator]:
    if not logarithmic:
        return [MaxNLocator(n, steps=[1, 2, 5, 10]) for n in range(MARKS, 1, -1)]
    finer = [LogLocator(subs=subs, numticks=40) for subs in ((1, 2, 5), (1, 3), (1,))]
    return [*finer, LogLocator(numticks=MARKS)]


def set_values(axes: Axes, low: float, high: float, unit: str, *, log: bool) -> None:
    """Set axes to their range of values from left to right, with marks and a grid."""
    axes.set_xscale("log" if log else "linear")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(marks(low, high, logarithmic=log)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: mark(value, unit)))
    axes.minorticks_off()
    for label, at in zip(axes.get_xticklabels(), axes.get_xticks(), strict=True):
        share, _ = axes.transAxes.inverted().transform(
            axes.transData.transform((at, 0))
        )
        label.set_horizontalalignment(
            "left" if share < EDGE else "right" if share > 1 - EDGE else "center"
        )


def mark(value: float, unit: str) -> str:
    """Return the text of a mark, of a width that leaves room for the next."""
    return fitted(units.round_value(value, unit), MARK_WIDTH, SMALL)
