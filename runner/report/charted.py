"""What a picture shows as a table, for those who cannot see it."""

from __future__ import annotations

from runner.report.blocks import Table
from runner.report.charts import Bar, BarChart, Chart


def table(chart: Chart) -> Table:
    """Return the figures that a chart is drawn of."""
    if isinstance(chart, BarChart):
        return _bars(chart)
    rows = tuple(
        (point.series, point.label, f"{point.intensity:.3g}", _rate(point.flops))
        for point in chart.points
    )
    bounds = tuple(
        (
            "bound",
            roof.label,
            "",
            _rate(roof.flops) if roof.flops else f"{(roof.bandwidth or 0) / 1e9:.4g} GB/s",
        )
        for roof in chart.roofs
    )
    heads = ("of", "kernel or bound", "operations per byte", "rate")
    return Table(chart.title, heads, (*bounds, *rows), frozenset({2, 3}))


def _bars(chart: BarChart) -> Table:
    series = any(bar.series for bar in chart.bars)
    spread = any(bar.low is not None for bar in chart.bars)
    heads = (*(("of",) if series else ()), "bar", chart.unit)
    rows = tuple(
        (
            *((bar.series,) if series else ()),
            bar.label,
            f"{bar.value:.6g}",
            *(_range(bar) if spread else ()),
        )
        for bar in chart.bars
    )
    right = frozenset(range(2 if series else 1, len(heads) + 2 * spread))
    return Table(
        chart.title, (*heads, *(("from", "to") if spread else ())), rows, right
    )


def _range(bar: Bar) -> tuple[str, str]:
    if bar.low is None or bar.high is None:
        return "", ""
    return f"{bar.low:.6g}", f"{bar.high:.6g}"


def _rate(flops: float | None) -> str:
    return "" if flops is None else f"{flops / 1e9:.4g} GFLOP/s"
