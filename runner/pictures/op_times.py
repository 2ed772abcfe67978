"""Op Times over commits, a line for each series."""

from __future__ import annotations

from runner.pictures.canvas import Axes, drawing, text_width
from runner.pictures.colours import DASHES, FAINT, GRID, MARKERS, ink
from runner.pictures.labels import safe, wrapped
from runner.pictures.sheet import (
    EDGE,
    HEAD,
    LINE,
    MARKER,
    SMALL,
    Sheet,
    listed,
    named,
)
from runner.report.op_times import OpTimePlot, PlotPoint, PlottedSeries
from runner.report.words import brief

WIDTH, TALL = 720, 240
LEFT, FOOT = 84, 40
"""The room for the times at the left, and for the commits below."""

MARKS = 7
APART = 0.4
"""A marker's size, as a share of the way to the next; 3 to 8 pixels."""


def svg(plot: OpTimePlot) -> str:
    """Return the picture of a plot."""
    name = named(plot)
    with drawing(name):
        return _drawn(plot, name)


def _drawn(plot: OpTimePlot, name: str) -> str:
    scale = ", logarithmic" if plot.axis.logarithmic else ""
    about = f"Op Time{scale}: {plot.common}" if plot.common else f"Op Time{scale}"
    title = wrapped(about, WIDTH - 2 * EDGE, HEAD, "bold")
    top = EDGE + LINE * len(title) + 14
    end = top + TALL + FOOT
    sheet = Sheet(WIDTH, end + LINE * (len(plot.series) + len(plot.notes)) + 16)
    sheet.head(title)
    axes = sheet.axes(LEFT, top, WIDTH - LEFT - EDGE, TALL)
    _scales(sheet, axes, plot)
    for number, one in enumerate(plot.series):
        _line(sheet, axes, plot, one, number)
        y = end + LINE * number + 14
        sheet.line(EDGE + 6, y - 4, number, dashed=True)
        sheet.text(EDGE + 42, y, f"{one.name}: {_last(one)}", size=SMALL)
    notes = [f"{note}." for note in plot.notes]
    sheet.foot(end + LINE * len(plot.series) + 6, notes)
    lasts = [f"{one.name}: {_last(one)}" for one in plot.series]
    places = "1 commit" if len(plot.places) == 1 else f"{len(plot.places)} commits"
    return sheet.svg(about, f"Over {places}, at last {listed(lasts)}", name)


def _scales(sheet: Sheet, axes: Axes, plot: OpTimePlot) -> None:
    """Set the range of the times, and name the commits that there is room for."""
    axes.set_yscale("log" if plot.axis.logarithmic else "linear")
    axes.set_ylim(plot.axis.low, plot.axis.high)
    marks = plot.axis.marks(MARKS)
    axes.set_yticks([at for at, _ in marks], [text for _, text in marks])
    axes.set_xlim(-0.5, len(plot.places) - 0.5)
    axes.set_xticks([])
    axes.minorticks_off()
    axes.grid(axis="y", color=GRID.light, linewidth=1)
    end = 0.0
    for number, place in enumerate(plot.places):
        half = text_width(safe(place), SMALL) / 2
        x, y = sheet.place(axes, number, plot.axis.low)
        if end <= x - half and x + half <= WIDTH:
            sheet.text(
                x,
                y + 20,
                place,
                room=2 * half + 1,
                size=SMALL,
                colour=FAINT,
                anchor="center",
            )
            end = x + half + 16


def _line(
    sheet: Sheet, axes: Axes, plot: OpTimePlot, one: PlottedSeries, number: int
) -> None:
    """Draw a series: its line, its times, and each point with its title."""
    colour = ink(number).light
    several = [
        (p.place, t) for p in one.points for t in p.times_s if len(p.times_s) > 1
    ]
    if several:
        axes.plot(*zip(*several, strict=True), ".", color=colour, markersize=4)
    between = (WIDTH - LEFT - EDGE) / len(plot.places)
    axes.plot(
        [point.place for point in one.points],
        [point.median_s for point in one.points],
        color=colour,
        linewidth=2,
        linestyle=DASHES[number % len(DASHES)],
        solid_joinstyle="round",
        marker=MARKERS[number % len(MARKERS)],
        markersize=max(3.0, min(float(MARKER), APART * between)),
        clip_on=False,
        gid=sheet.titled(*(_about(plot, one, point) for point in one.points)),
    )


def _about(plot: OpTimePlot, one: PlottedSeries, point: PlotPoint) -> str:
    """Describe a point, for who points at it."""
    times = len(point.times_s)
    of = f", median of {times}" if times > 1 else ""
    runs = point.runs[0] if len(point.runs) == 1 else f"{len(point.runs)} runs"
    where = plot.places[point.place]
    return f"{brief(point.median_s)}{of}: {one.name}, commit {where}, {runs}"


def _last(one: PlottedSeries) -> str:
    return brief(one.points[-1].median_s)
