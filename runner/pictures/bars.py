"""Bars from above to below, each with its label and value on a line of its own."""

from __future__ import annotations

from collections.abc import Sequence

from runner.pictures import axes as scales
from runner.pictures import units
from runner.pictures.canvas import Axes, Rectangle, drawing, text_width
from runner.pictures.colours import FAINT, GRID, HATCHES, PAPER, TEXT, ink
from runner.pictures.labels import fitted, safe, wrapped
from runner.pictures.sheet import (
    BODY,
    EDGE,
    HEAD,
    LINE,
    SMALL,
    WIDTH,
    Sheet,
    listed,
    named,
)
from runner.report.charts import Bar, BarChart

MOST_BARS = 40
MOST_SERIES = 8

STEP, THICK = 40, 13
"""From a bar to the next, and the height of a bar."""

FOOT = 30
"""The room for the marks of the axis."""

Series = dict[str, int]


def svg(chart: BarChart) -> str:
    """Return the picture of bars; of many bars, the first."""
    name = named(chart)
    with drawing(name):
        return _drawn(chart, chart.bars[:MOST_BARS], name)


def _drawn(chart: BarChart, bars: Sequence[Bar], name: str) -> str:
    series = _series(bars)
    shown = list(series)[:MOST_SERIES] if any(series) else []
    notes = list(_notes(chart, len(bars), len(series)))
    title = wrapped(chart.title, WIDTH - 2 * EDGE, HEAD, "bold")
    top = EDGE + LINE * (len(title) + len(shown)) + 6
    end = top + STEP * max(len(bars), 1)
    sheet = Sheet(WIDTH, end + FOOT + LINE * len(notes) + 4)
    sheet.head(title)
    for n, one in enumerate(shown):
        y = EDGE + LINE * (len(title) + n) + 16
        _swatch(sheet, EDGE, y - 10, series[one])
        sheet.text(EDGE + 30, y, one or "others", size=SMALL)
    axes = sheet.axes(EDGE, top, WIDTH - 2 * EDGE, end - top)
    _rows(sheet, axes, chart, bars, series)
    for n, bar in enumerate(bars):
        value = fitted(units.written(bar.value, chart.unit), WIDTH / 3, BODY)
        room = WIDTH - 2 * EDGE - text_width(value, BODY) - 12
        y = top + STEP * n + 16
        sheet.text(EDGE, y, bar.label, room=room)
        sheet.text(WIDTH - EDGE, y, value, anchor="right")
    if not bars:
        sheet.text(EDGE, top + 16, "There is nothing to draw.", colour=FAINT)
    sheet.foot(end + FOOT, notes)
    about = [_about(bar, chart.unit) for bar in chart.bars]
    count = "1 bar" if len(about) == 1 else f"{len(about)} bars"
    return sheet.svg(chart.title, f"{count}: {listed(about)}", name)


def _series(bars: Sequence[Bar]) -> Series:
    return {one: n for n, one in enumerate(dict.fromkeys(bar.series for bar in bars))}


def _notes(chart: BarChart, drawn: int, series: int) -> Sequence[str]:
    notes = []
    if chart.logarithmic:
        notes.append("The axis is logarithmic.")
    if any(bar.low is not None or bar.high is not None for bar in chart.bars):
        notes.append("Lines go from the lowest to the highest sample.")
    if more := len(chart.bars) - drawn:
        notes.append(f"{more} more {'bar is' if more == 1 else 'bars are'} not drawn.")
    if series > MOST_SERIES:
        notes.append(f"{series - MOST_SERIES} more series have no line in the legend.")
    return notes


def _rows(
    sheet: Sheet, axes: Axes, chart: BarChart, bars: Sequence[Bar], series: Series
) -> None:
    """Draw the bars on axes, whose vertical places are those of the rows."""
    log = chart.logarithmic
    found = [v for bar in bars for v in _values(bar, logarithmic=log)]
    low, high = scales.extent(found, logarithmic=log)
    scales.set_values(axes, low, high, chart.unit, log=log)
    axes.set_ylim(max(len(bars), 1) * STEP, 0)
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID.light, linewidth=1)
    for n, bar in enumerate(bars):
        axes.axhspan(n * STEP + 2, n * STEP + 21, color=PAPER.light, linewidth=0)
        if scales.drawable(bar.value, logarithmic=log):
            _bar(sheet, axes, bar, chart.unit, n, series[bar.series], low if log else 0)


def _bar(
    sheet: Sheet, axes: Axes, bar: Bar, unit: str, row: int, look: int, start: float
) -> None:
    y = STEP * row + 22 + THICK / 2
    (drawn,) = axes.barh(
        y,
        bar.value - start,
        THICK,
        left=start,
        color=ink(look).light,
        edgecolor=PAPER.light,
        linewidth=0,
        hatch=HATCHES[look % len(HATCHES)],
        clip_on=False,
    )
    drawn.set_gid(sheet.titled(_about(bar, unit)))
    low = bar.value if bar.low is None else bar.low
    high = bar.value if bar.high is None else bar.high
    ends = [max(bar.value - low, 0.0)], [max(high - bar.value, 0.0)]
    if bar.low is None and bar.high is None:
        return
    for colour, width in ((PAPER, 4.5), (TEXT, 1.5)):  # the first parts it from the bar
        axes.errorbar(
            bar.value,
            y,
            xerr=ends,
            fmt="none",
            ecolor=colour.light,
            elinewidth=width,
            capsize=4,
            capthick=width,
        )


def _values(bar: Bar, *, logarithmic: bool) -> list[float]:
    return [
        value
        for value in (bar.value, bar.low, bar.high)
        if value is not None and scales.drawable(value, logarithmic=logarithmic)
    ]


def _about(bar: Bar, unit: str) -> str:
    """Describe a bar in words."""
    of = f", {bar.series}" if bar.series else ""
    text = safe(f"{bar.label}{of}: {units.written(bar.value, unit)}")
    if bar.low is None or bar.high is None:
        return text
    low, high = units.written(bar.low, unit), units.written(bar.high, unit)
    return f"{text}, from {low} to {high}"


def _swatch(sheet: Sheet, x: float, y: float, look: int) -> None:
    """Draw a series' entry in the legend."""
    left, bottom = sheet.at(x, y + 11)
    sheet.draw(
        Rectangle(
            (left, bottom),
            22 / sheet.width,
            11 / sheet.height,
            facecolor=ink(look).light,
            edgecolor=PAPER.light,
            linewidth=0,
            hatch=HATCHES[look % len(HATCHES)],
        )
    )
