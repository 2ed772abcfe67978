"""Op Times over commits as an SVG: one file, no script, for light and for dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from runner.core.screen import printable
from runner.report.op_times import OpTimePlot, PlotPoint, PlottedSeries
from runner.report.words import brief

WIDTH, HEIGHT = 860, 320
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 52, 48
ROW, LETTER = 22, 8.0
"""A row of the legend, and the width that a letter takes at most."""

MOST_LETTERS = 84
APART = 0.3
"""The radius of a point, as a share of the way to the next; 1.5 to 4 pixels."""

LIGHT = ("#0969da", "#bc4c00", "#1a7f37", "#bf3989", "#8250df", "#1b7c83", "#9a6700")
DARK = ("#58a6ff", "#ffa657", "#3fb950", "#f778ba", "#bc8cff", "#39c5cf", "#e3b341")
DASHES = ("", "7 4", "2 3", "10 3 2 3")
"""With the colours, so that no two series look alike to anybody."""

FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


def svg(plot: OpTimePlot) -> str:
    """Return the plot as the text of an SVG file."""
    height = HEIGHT + ROW * (len(plot.series) + len(plot.notes)) + ROW
    scale = ", logarithmic" if plot.axis.logarithmic else ""
    title = f"Op Time{scale}: {plot.common}" if plot.common else f"Op Time{scale}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        f'<title id="title">{_escaped(title)}</title>',
        f"<style>{_style(len(plot.series))}</style>",
        '<rect class="paper" width="100%" height="100%" rx="6"/>',
        _text(LEFT, 28, _cut(title), "head"),
        *_times(plot),
        *_places(plot),
        *(part for n, one in enumerate(plot.series) for part in _line(plot, one, n)),
        *_legend(plot),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _style(series: int) -> str:
    def colours(palette: tuple[str, ...]) -> str:
        return "".join(
            f".l{n}{{stroke:{colour}}}.d{n}{{fill:{colour}}}"
            for n, colour in enumerate(palette[i % len(palette)] for i in range(series))
        )

    return (
        f"text{{font:13px {FONT};fill:#1f2328}}.head{{font-size:15px;font-weight:600}}"
        ".faint{fill:#59636e}.paper{fill:#ffffff}.grid{stroke:#d1d9e0}"
        f".line{{fill:none;stroke-width:2;stroke-linejoin:round}}{colours(LIGHT)}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}"
        f".paper{{fill:#0d1117}}.grid{{stroke:#30363d}}{colours(DARK)}}}"
    )


def _x(plot: OpTimePlot, place: int) -> float:
    return LEFT + (place + 0.5) / len(plot.places) * (WIDTH - LEFT - RIGHT)


def _y(plot: OpTimePlot, time_s: float) -> float:
    return HEIGHT - BOTTOM - plot.axis.share(time_s) * (HEIGHT - BOTTOM - TOP)


def _times(plot: OpTimePlot) -> Iterator[str]:
    for time_s, text in plot.axis.marks(7):
        y = _y(plot, time_s)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 10, y + 4.5, text, "faint", "end")


def _places(plot: OpTimePlot) -> Iterator[str]:
    """Yield the names of as many commits as there is room for."""
    y, end = HEIGHT - BOTTOM, 0.0
    for number, place in enumerate(plot.places):
        x, half = _x(plot, number), LETTER * len(place) / 2
        if x - half >= end:
            yield f'<path class="grid" d="M{x:.1f} {y}v6"/>'
            yield _text(x, y + 22, place, "faint", "middle")
            end = x + half + 2 * LETTER


def _line(plot: OpTimePlot, one: PlottedSeries, number: int) -> Iterator[str]:
    at = " ".join(
        f"{_x(plot, p.place):.1f},{_y(plot, p.median_s):.1f}" for p in one.points
    )
    yield f'<polyline class="line l{number}"{_dashes(number)} points="{at}"/>'
    radius = max(1.5, min(4.0, APART * (WIDTH - LEFT - RIGHT) / len(plot.places)))
    for point in one.points:
        x, about = _x(plot, point.place), _about(plot, one, point)
        if len(point.times_s) > 1:
            for time_s in point.times_s:
                y = _y(plot, time_s)
                yield f'<circle class="d{number}" cx="{x:.1f}" cy="{y:.1f}" r="1.5"/>'
        y = _y(plot, point.median_s)
        yield (
            f'<circle class="d{number}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}">'
            f"<title>{_escaped(about)}</title></circle>"
        )


def _about(plot: OpTimePlot, one: PlottedSeries, point: PlotPoint) -> str:
    """Describe a point, for who points at it."""
    times = len(point.times_s)
    of = f", median of {times}" if times > 1 else ""
    runs = point.runs[0] if len(point.runs) == 1 else f"{len(point.runs)} runs"
    where = plot.places[point.place]
    return f"{brief(point.median_s)}{of}: {one.name}, commit {where}, {runs}"


def _legend(plot: OpTimePlot) -> Iterator[str]:
    y = HEIGHT + 4
    for number, one in enumerate(plot.series):
        yield (
            f'<path class="line l{number}"{_dashes(number)} '
            f'd="M{LEFT} {y}H{LEFT + 36}"/>'
        )
        yield f'<circle class="d{number}" cx="{LEFT + 18}" cy="{y}" r="4"/>'
        last = brief(one.points[-1].median_s)
        yield _text(LEFT + 48, y + 4.5, f"{_cut(one.name)}: {last}")
        y += ROW
    for note in plot.notes:
        yield _text(LEFT, y + 4.5, f"{note}.", "faint")
        y += ROW


def _cut(text: str) -> str:
    """Return a text that does not leave the picture; its beginning, if it is long."""
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"


def _dashes(number: int) -> str:
    dashes = DASHES[number % len(DASHES)]
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "") -> str:
    more = f' class="{kind}"' if kind else ""
    more += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    """Return a text for XML, with what is not seen as its number."""
    return escape(printable(" ".join(text.split())))
