"""The pictures of a report, as what they show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from runner.report.blocks import Section
from runner.report.charts import Bar, BarChart, Picture
from runner.report.document.nouns import NetworkFigures, Report, TimeShares
from runner.report.document.tables import run_name, shares_title
from runner.report.names import shortened

MOST_BARS = 40
MOST_PICTURES = 12
"""Of Op Times, and of shares; each takes 50 ms to draw."""

MOST_SHARES = 12
LONGEST_LABEL = 60


def pictures(sections: Iterable[Section]) -> Iterator[Picture]:
    """Yield every picture of a page, in order."""
    for section in sections:
        yield from (part for part in section.parts if isinstance(part, Picture))
        yield from pictures(section.sections)


def op_times(report: Report) -> Iterator[Picture]:
    """Yield a picture of the Op Times for each number of images."""
    by_images: dict[int | None, list[NetworkFigures]] = {}
    for one in report.networks:
        if one.op_time_s and not one.under:
            by_images.setdefault(one.images, []).append(one)
    # One bar alone is no picture.
    sizes = [images for images, timed in by_images.items() if len(timed) > 1]
    sizes.sort(key=lambda one: (one is None, one or 0))
    for images in sizes[-MOST_PICTURES:]:
        bars = [_bar(report, n) for n in by_images[images][:MOST_BARS]]
        of = "" if images is None else f" of {images} images"
        values = [bar.value for bar in bars if bar.value > 0]
        wide = bool(values) and max(values) > 50 * min(values)
        text = "The sum of the Op Times of each script and variant"
        if any(bar.low is not None for bar in bars):
            text += "; a line is from the shortest to the longest round"
        name = f"op-times-{'any' if images is None else images}"
        chart = BarChart(f"Op Times{of}", "s", tuple(bars), logarithmic=wide)
        yield Picture(name, f"{text}.", chart)


def _bar(report: Report, one: NetworkFigures) -> Bar:
    total = one.op_time_s
    assert total is not None
    several = total.n > 1
    return Bar(
        label=" ".join(filter(None, (one.script, one.variant))),
        value=total.median,
        low=total.smallest if several else None,
        high=total.largest if several else None,
        series=run_name(report, one.run) if len(report.runs) > 1 else "",
    )


def shares(report: Report, one: TimeShares, number: int) -> Picture:
    """Return a picture of the shares of kernels in a profile."""
    drawn = one.rows[:MOST_SHARES]
    bars = [Bar(shortened(row.name, LONGEST_LABEL), row.percent) for row in drawn]
    more = one.rest_rows + len(one.rows) - len(drawn)
    if more:
        others = sum(row.percent for row in one.rows[MOST_SHARES:])
        rest = one.rest.percent if one.rest else 0.0
        bars.append(Bar(f"{more} more", others + rest))
    title = f"Share of the GPU's time: {shares_title(one)}"
    text = "The share of each kernel and copy in the time of the GPU."
    return Picture(
        f"shares-{number + 1}", text, BarChart(title, "%", tuple(bars[:MOST_BARS]))
    )
