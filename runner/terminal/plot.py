"""Draw Op Times over commits with the dots of braille."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

from plotille import Canvas  # type: ignore[import-untyped]

from runner.core.screen import printable
from runner.report import brief
from runner.report.op_times import OpTimePlot, PlottedSeries
from runner.terminal import look
from runner.terminal.streams import write_line
from runner.terminal.text import Tone, cells, cut, painted

ROWS = 16
USUAL_WIDTH, NARROWEST = 100, 8
LEAST_NAME = 24
"""What is seen of a name before its times go below it."""

COLOURS = (33, 166, 35, 162, 99, 37, 136, 245)
"""Of a terminal's 256 colours, those that show on light and on dark."""

MARKERS = "abcdefgh"
GAP = 2
EMPTY = "\u2800"
"""A character of braille without a dot, for which a space does."""


def draw(plot: OpTimePlot) -> None:
    """Print a plot on stdout, as wide as the terminal."""
    able = look.of(sys.stdout)
    for line in lines(plot, able.width or USUAL_WIDTH, colour=able.colour):
        write_line(line, sys.stdout)


def lines(plot: OpTimePlot, width: int, *, colour: bool = False) -> Iterator[str]:
    """Yield the lines: a title, the plot with its axes, and what each marker means."""
    scale = ", logarithmic" if plot.axis.logarithmic else ""
    title = f"Op Time{scale}: {plot.common}" if plot.common else f"Op Time{scale}"
    yield _painted(cut(printable(title), width), Tone.HEAD, colour=colour)
    marks = {_row(plot, at): text for at, text in plot.axis.marks(ROWS // 3)}
    left = max(map(len, marks.values()), default=0)
    room = max(NARROWEST, width - left - GAP)
    for row, drawn in enumerate(_canvas(plot, room, colour=colour)):
        sign = "┤" if row in marks else "│"
        yield f"{marks.get(row, ''):>{left}} {sign}{drawn}".rstrip()
    yield from _places(plot.places, left, room)
    for number, one in enumerate(plot.series):
        yield from _legend(one, number, width, colour=colour)
    for note in plot.notes:
        yield cut(f"{note}.", width)


def _canvas(plot: OpTimePlot, width: int, *, colour: bool) -> list[str]:
    """Return the rows of dots, from the top."""
    canvas = Canvas(width, ROWS, mode="byte", **_span(plot), ymin=0.0, ymax=1.0)
    shares = plot.axis.share
    for number, one in enumerate(plot.series):
        painting = COLOURS[number] if colour else None
        middle = [(p.place, shares(p.median_s)) for p in one.points]
        for (x0, y0), (x1, y1) in pairwise(middle):
            canvas.line(x0, y0, x1, y1, color=painting)
        for point in one.points:
            for time_s in point.times_s:
                canvas.point(point.place, shares(time_s), color=painting)
    for number, one in enumerate(plot.series):  # no line hides a marker
        painting = COLOURS[number] if colour else None
        for p in one.points:
            share = shares(p.median_s)
            canvas.point(p.place, share, color=painting, marker=MARKERS[number])
    rows: list[str] = canvas.plot(linesep="\n").replace(EMPTY, " ").split("\n")
    return rows


def _span(plot: OpTimePlot) -> dict[str, float]:
    return {"xmin": -0.5, "xmax": len(plot.places) - 0.5}


def _row(plot: OpTimePlot, time_s: float) -> int:
    """Return the row of a time, counted from the top."""
    return ROWS - 1 - min(int(plot.axis.share(time_s) * ROWS), ROWS - 1)


def _places(places: Sequence[str], left: int, width: int) -> Iterator[str]:
    """Yield the axis of commits, and the names of as many as there is room for."""
    axis, names = ["─"] * width, ""
    for number, place in enumerate(places):
        at = min(int((number + 0.5) / len(places) * width), width - 1)
        shown = printable(place)
        first = min(max(0, at - cells(shown) // 2), width - cells(shown))
        if first >= cells(names) + GAP * bool(names):
            axis[at] = "┬"
            names += " " * (first - cells(names)) + shown
    yield f"{'':>{left}} └{''.join(axis)}"
    yield f"{'':>{left}}  {names}"


def _legend(
    one: PlottedSeries, number: int, width: int, *, colour: bool
) -> Iterator[str]:
    """Yield what a marker means: in one line, or in two where there is little room."""
    times = [point.median_s for point in one.points]
    facts = f"last {brief(times[-1])}, best {brief(min(times))}"
    marker, name = MARKERS[number], printable(one.name)
    shown = _painted(marker, f"38;5;{COLOURS[number]}", colour=colour)
    left = len(marker) + GAP
    room = width - left - GAP - len(facts)
    if room < min(cells(name), LEAST_NAME):
        yield f"{shown}  {cut(name, width - left)}"
        yield cut(f"{'':{left}}{facts}", width)
    else:
        yield f"{shown}  {cut(name, room)}  {facts}"


def _painted(text: str, tone: str, *, colour: bool) -> str:
    return painted(text, tone) if colour else text
