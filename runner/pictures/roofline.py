"""Kernels as points below the bounds of their GPU, on two logarithmic axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.pictures import axes as scales
from runner.pictures import units
from runner.pictures.boxes import Boxes
from runner.pictures.canvas import Axes, drawing, text_width
from runner.pictures.colours import FAINT, GRID, MARKERS, PAPER, ink
from runner.pictures.labels import fitted, safe, wrapped
from runner.pictures.roofs import Bound, bounds, draw_bounds
from runner.pictures.sheet import (
    EDGE,
    HEAD,
    LINE,
    MARKER,
    SMALL,
    WIDTH,
    Sheet,
    listed,
    named,
)
from runner.report.charts import Roofline, RoofPoint

MOST_POINTS = 30
TALL, LEFT, FOOT = 300, 92, 48
"""The height of the axes, and the room for their marks at the left and below."""

INTENSITY, RATE = "FLOP/B", "FLOP/s"
AROUND = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))
"""Where a point's number may be: to the right of it, to the left, above, ..."""

DECADES = 3
"""What the axes show at least of the bounds below their highest point."""


def svg(chart: Roofline) -> str:
    """Return the picture of kernels and bounds; of many kernels, the first."""
    name = named(chart)
    with drawing(name):
        return _drawn(chart, name)


def _drawn(chart: Roofline, name: str) -> str:
    placed = [one for one in chart.points if _has_place(one)]
    points, found = placed[:MOST_POINTS], bounds(chart.roofs)
    series = {each: n for n, each in enumerate(dict.fromkeys(p.series for p in points))}
    shown = list(series) if any(series) else []
    notes = list(_notes(chart, len(placed), len(points)))
    title = wrapped(chart.title, WIDTH - 2 * EDGE, HEAD, "bold")
    top = EDGE + LINE * (len(title) + len(shown)) + 10
    end = top + TALL + FOOT
    sheet = Sheet(WIDTH, end + LINE * (len(points) + len(notes)) + 14)
    sheet.head(title)
    for n, each in enumerate(shown):
        y = EDGE + LINE * (len(title) + n) + 16
        sheet.line(EDGE + MARKER / 2, y - 4, series[each])
        sheet.text(EDGE + 18, y, each or "others", size=SMALL)
    axes = sheet.axes(LEFT, top, WIDTH - LEFT - EDGE, TALL)
    _scales(axes, points, found)
    sheet.text(WIDTH - EDGE, end - 8, "FLOP per byte", anchor="right", colour=FAINT)
    taken = Boxes(LEFT, top, WIDTH - EDGE, top + TALL)
    _markers(sheet, axes, points, series, taken)
    draw_bounds(sheet, axes, found, taken)
    _numbers(sheet, axes, points, taken)
    for n, point in enumerate(points):
        _row(sheet, end + LINE * n + 14, n + 1, point, series[point.series])
    sheet.foot(end + LINE * len(points) + 6, notes)
    about = [_about(one) for one in chart.points]
    text = f"{len(about)} kernels: {listed(about)}; bounds: " + listed(
        [f"{safe(one.label)} {one.written}" for one in found]
    )
    return sheet.svg(chart.title, text, name)


def _has_place(point: RoofPoint) -> bool:
    both = (point.intensity, point.flops)
    return all(scales.drawable(value, logarithmic=True) for value in both)


def _notes(chart: Roofline, placed: int, drawn: int) -> Iterator[str]:
    yield "Both axes are logarithmic."
    if none := len(chart.points) - placed:
        text = "kernel has" if none == 1 else "kernels have"
        yield f"{none} {text} no place, without operations or bytes."
    if more := placed - drawn:
        yield f"{more} more {'kernel is' if more == 1 else 'kernels are'} not drawn."


def _scales(axes: Axes, points: Sequence[RoofPoint], found: Sequence[Bound]) -> None:
    """Set the range to the points, and to the bounds around them."""
    peaks = [one.flops for one in found if one.flops]
    widths = [one.bandwidth for one in found if one.bandwidth]
    ridges = [peak / width for peak in peaks for width in widths]
    across = [*(p.intensity for p in points), *ridges] or [1.0]
    up = [*(p.flops for p in points), *peaks] or [1.0]
    scales.set_values(axes, min(across) / 4, max(across) * 4, "", log=True)
    low = min(*up, max(up) / 10**DECADES)
    axes.set_yscale("log")
    axes.set_ylim(low / 2, max(up) * 2.5)
    rates = scales.marks(*axes.get_ylim(), logarithmic=True)
    axes.set_yticks(rates, [scales.mark(rate, RATE) for rate in rates])
    axes.minorticks_off()
    axes.grid(color=GRID.light, linewidth=1)


def _markers(
    sheet: Sheet,
    axes: Axes,
    points: Sequence[RoofPoint],
    series: dict[str, int],
    taken: Boxes,
) -> None:
    for point in points:
        look = series[point.series]
        axes.plot(
            [point.intensity],
            [point.flops],
            marker=MARKERS[look % len(MARKERS)],
            markersize=MARKER,
            color=ink(look).light,
            markeredgecolor=PAPER.light,
            zorder=3,
            gid=sheet.titled(_about(point)),
        )
        x, y = sheet.place(axes, point.intensity, point.flops)
        taken.add(x - MARKER / 2, y - MARKER / 2, MARKER, MARKER)


def _numbers(
    sheet: Sheet, axes: Axes, points: Sequence[RoofPoint], taken: Boxes
) -> None:
    """Write each point's number beside it, where nothing else is."""
    for n, point in enumerate(points):
        x, y = sheet.place(axes, point.intensity, point.flops)
        width = text_width(str(n + 1), SMALL)
        ways = [
            (across * (7 + far) - width * (1 - across) / 2, 4 + up * (12 + far))
            for far in (0, 10, 20, 30)
            for across, up in AROUND
        ]
        right, down = taken.best(ways, x, y, width)
        taken.add(x + right, y + down - 10, width, 12)
        sheet.text(x + right, y + down, str(n + 1), size=SMALL)


def _row(sheet: Sheet, y: float, number: int, point: RoofPoint, look: int) -> None:
    """Write a point's number, name and rate, below the axes."""
    sheet.text(EDGE + 18, y, str(number), anchor="right", size=SMALL)
    sheet.line(EDGE + 30, y - 4, look)
    rate = fitted(units.written(point.flops, RATE), WIDTH / 3, SMALL)
    room = WIDTH - 2 * EDGE - 40 - text_width(rate, SMALL) - 12
    sheet.text(EDGE + 40, y, point.label, room=room, size=SMALL)
    sheet.text(WIDTH - EDGE, y, rate, anchor="right", size=SMALL)


def _about(point: RoofPoint) -> str:
    """Describe a point in words."""
    of = f", {point.series}" if point.series else ""
    rate = units.written(point.flops, RATE)
    return safe(
        f"{point.label}{of}: {rate} at {units.written(point.intensity, INTENSITY)}"
    )
