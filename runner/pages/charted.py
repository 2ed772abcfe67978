"""The figures that a picture shows, as a table."""

from __future__ import annotations

from runner.pictures.drawings import bound
from runner.pictures.scales import written
from runner.report.blocks import Table
from runner.report.charts import Bar, BarChart, Chart, LineChart


def table(chart: Chart) -> Table:
    """Return the data of a chart; a column without anything is not shown."""
    if isinstance(chart, BarChart):
        marks = dict.fromkeys(mark.label for bar in chart.bars for mark in bar.marks)
        heads: tuple[str, ...] = ("bar", "series", "value", "lowest", "highest", *marks)
        rows: list[tuple[str, ...]] = [
            _bar(bar, chart.unit, tuple(marks)) for bar in chart.bars
        ]
    elif isinstance(chart, LineChart):
        heads = ("line", "", chart.across, "value")
        rows = [
            (one.label, "", written(across, ""), written(up, chart.unit))
            for one in chart.curves
            for across, up in one.points
        ]
    else:
        heads = ("kernel or bound", "series", "FLOP per byte", "rate")
        rows = [
            (
                *(one.label, one.series, written(one.intensity, "")),
                written(one.flops, "FLOP/s"),
            )
            for one in chart.points
        ]
        rows += [(bound(roof), "bound", "", "") for roof in chart.roofs]
    return Table(
        f"Data of the picture: {chart.title}",
        heads,
        tuple(rows),
        right=frozenset(range(2, len(heads))),
        names=frozenset({0}),
    )


def _bar(bar: Bar, unit: str, marks: tuple[str, ...]) -> tuple[str, ...]:
    marked = {mark.label: mark.value for mark in bar.marks}
    values = (bar.value, bar.low, bar.high, *map(marked.get, marks))
    figures = ("" if each is None else written(each, unit) for each in values)
    return (bar.label, bar.series, *figures)
