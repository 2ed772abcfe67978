"""The figures that a picture shows, as a table."""

from __future__ import annotations

from runner.report.blocks import Table
from runner.report.charts import Bar, BarChart, Chart, Roofline
from runner.report.words import brief


def table(chart: Chart) -> Table:
    """Return the data of a chart."""
    return _bars(chart) if isinstance(chart, BarChart) else _roofline(chart)


def _bars(chart: BarChart) -> Table:
    with_series = any(bar.series for bar in chart.bars)
    with_spread = any(bar.low is not None for bar in chart.bars)
    heads = ["bar", "series", "value", "lowest", "highest"]
    rows = [_bar(bar, chart.unit) for bar in chart.bars]
    kept = [0, *([1] if with_series else []), 2, *([3, 4] if with_spread else [])]
    return Table(
        f"Data of the picture: {chart.title}",
        tuple(heads[i] for i in kept),
        tuple(tuple(row[i] for i in kept) for row in rows),
        right=frozenset(place for place, i in enumerate(kept) if i > 1),
        names=frozenset({0}),
    )


def _bar(bar: Bar, unit: str) -> tuple[str, ...]:
    figures = (bar.value, bar.low, bar.high)
    return (bar.label, bar.series, *(_figure(each, unit) for each in figures))


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return brief(value) if unit == "s" else f"{value:.4g} {unit}".rstrip()


def _roofline(chart: Roofline) -> Table:
    points = [
        (each.label, each.series, f"{each.intensity:.4g}", f"{each.flops / 1e9:,.1f}")
        for each in chart.points
    ]
    bounds = [
        (roof.label, "bound", "", f"{roof.flops / 1e9:,.1f}")
        if roof.flops is not None
        else (roof.label, "bound", f"{(roof.bandwidth or 0) / 1e9:,.1f} GB/s", "")
        for roof in chart.roofs
    ]
    return Table(
        f"Data of the picture: {chart.title}",
        ("kernel", "series", "FLOP per byte", "GFLOP/s"),
        (*points, *bounds),
        right=frozenset({2, 3}),
        names=frozenset({0}),
    )
