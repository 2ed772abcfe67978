"""The pictures of reports, as SVG by Jinja's templates."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from cmath import rect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import ceil, floor, isfinite, log10, radians
from pathlib import Path
from typing import TypeGuard

import jinja2
from markupsafe import Markup
from msgspec import Struct
from msgspec.structs import replace

from runner.core.quantities import brief
from runner.core.screen import printable
from runner.figures.table import cut
from runner.report.blocks import Bar, BarChart, Chart, Roof, Roofline, RoofPoint

SMALLEST, LARGEST = 1e-15, 1e18
"""Nothing smaller has a place on a logarithmic axis, and nothing larger on any."""

BODY, SMALL = 13.0, 12.0
"""Sizes of text, in pixels."""

MOST_CHARACTERS = 2000
"""A longer text is cut, even where there is room."""

_NO_XML = re.compile("[\ufdd0-\ufdef\ufffe\uffff]")
_NARROW, _WIDE = set(" !'(),-./:;I[\\]`fijlrt|"), set("#%+<=>@MW^mw~")


class Scale(Struct, frozen=True):
    """An axis: values from ``low`` to ``high``, at places from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the place of a value, in pixels."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = log10(low), log10(high), log10(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def between(
        self, one: float | None, other: float | None
    ) -> tuple[float, float] | None:
        """Return the places of two values, the left one first, if both have one."""
        ends = [self.at(v) for v in (one, other) if has_place(v, self.logarithmic)]
        return (min(ends), max(ends)) if len(ends) == 2 else None

    def ticks(self, gap: float) -> list[float]:
        """Return as many round values as lie so many pixels apart."""
        return next(
            found
            for found in _round_values(self.low, self.high, self.logarithmic)
            if all(abs(self.at(b) - self.at(a)) >= gap for a, b in pairwise(found))
        )


def _round_values(low: float, high: float, logarithmic: bool) -> Iterator[list[float]]:
    """Yield round values of a range, fewer each time."""
    if logarithmic and high >= low * 10:
        first, last = ceil(log10(low)), floor(log10(high))
        for digits in ((1, 2, 5), (1, 3)):
            every = [d * 10.0**n for n in range(first - 1, last + 1) for d in digits]
            yield [value for value in every if low <= value <= high]
        for step in range(1, last - first + 2):
            yield [10.0**n for n in range(first, last + 1) if n % step == 0]
        return
    for n in range(-1, 3):
        for digit in (1, 2, 5):
            size = digit * 10.0 ** (floor(log10(high - low)) + n)
            found = range(ceil(low / size - 1e-9), floor(high / size + 1e-9) + 1)
            yield [size * each for each in found]


def has_place(value: float | None, logarithmic: bool) -> TypeGuard[float]:
    """Return whether a value has a place on an axis."""
    if value is None or not isfinite(value) or abs(value) > LARGEST:
        return False
    return not logarithmic or value >= SMALLEST


def around(
    values: Iterable[float], start: float, end: float, logarithmic: bool
) -> Scale:
    """Return an axis that is a bit longer than its values, or begins at 0."""
    found = list(values) or [1.0]
    low, high = min(found), max(found)
    if logarithmic:
        return Scale(low / 1.5, high * 1.5, start, end, True)
    low, high = min(low, 0.0), max(high, 0.0)
    return Scale(low, high if high > low else 1.0, start, end)


def written(value: float, unit: str) -> str:
    """Format a value with four digits: 16.60 ms, 12.5 %, 1.234 TFLOP/s."""
    if not isfinite(value):
        return "unknown"
    sign, amount = "-" if value < 0 else "", abs(value)
    if unit == "s" and amount < LARGEST:
        return sign + (brief(amount) if amount else "0 s")
    if unit == "%" and (0.05 <= amount < LARGEST or not amount):
        return f"{value:.1f} %"
    prefixes = " kMGTPE" if unit in ("FLOP/s", "B/s") else " "
    while amount >= 999.95 and len(prefixes) > 1:
        amount, prefixes = amount / 1000, prefixes[1:]
    digits = f"{amount:,.0f}" if 1e4 <= amount < 1e9 else f"{amount:.4g}"
    return f"{sign}{digits} {prefixes[0].strip()}{unit}".rstrip()


def round_value(value: float, unit: str) -> str:
    """Format a round value, for an axis: 10 ms, 0.5 s, 20 %."""
    if unit == "%":
        return f"{value:.4g} %"
    number, _, rest = written(value, unit).partition(" ")
    short = f"{float(number):g}" if "." in number else number
    return f"{short} {rest}".rstrip()


def safe(text: str) -> str:
    """Return a text in one line, with invisible characters as their numbers."""
    line = printable(" ".join(cut(text, MOST_CHARACTERS).split()))
    return _NO_XML.sub(lambda match: ascii(match.group())[1:-1], line)


def width(text: str, height: float = BODY) -> float:
    """Return how many pixels a text is wide at most, in usual fonts of this size."""
    return height * sum(map(_share, text))


def _share(character: str) -> float:
    """Return the width of a character, in parts of the size of its font."""
    if character in _NARROW:
        return 0.41
    if character in _WIDE or not character.isascii():
        return 1.05 if unicodedata.east_asian_width(character) in "WF" else 1.0
    return 0.79 if character.isupper() or character == "&" else 0.64


def fitted(text: str, room: float, height: float = BODY) -> str:
    """Return a safe text that is at most so wide, if need be without its middle."""
    text = safe(text)
    if width(text, height) <= room:
        return text
    half = (room / height - 1) / 2
    first = bisect_right(list(accumulate(map(_share, text))), half)
    last = bisect_right(list(accumulate(map(_share, reversed(text)))), half)
    return f"{text[:first]}…{text[len(text) - last :]}"


TEMPLATES = Path(__file__).parent / "templates"
STYLE = (TEMPLATES / "style.css").read_text("utf-8")
"""The style of each picture. Within a page it follows the page's light or dark."""

MOST_BARS, MOST_BOUNDS, MOST_POINTS = 40, 8, 30
LABEL_ROOM, VALUE_ROOM = 300.0, 240.0
"""The most room for the labels left of bars, and for the values right of them."""

EDGE, WIDTH = 16, 900
LEFT, RIGHT, TOP, BOTTOM = 112.0, 600.0, 56.0, 400.0
"""Where the axes of a roofline lie; names are at their right.

Many names make the axes higher.
"""

AROUND = [
    rect(distance, radians(angle))
    for distance in (15, 22, 32, 42, 54)
    for angle in (0, 180, 90, 270, 45, 315, 135, 225)
]
"""Where the number of a point may be, from the point: to its right, left, below, ..."""

Span = tuple[float, float]
Box = tuple[float, float, float, float]
"""A left, top, right and bottom."""


class BarRow(Struct, frozen=True):
    """A bar: its ends, those of its samples, its marks, and where its value is."""

    bar: Bar
    look: int
    span: Span | None
    spread: Span | None
    marks: list[tuple[float, int]]
    after: float


class Spot(Struct, frozen=True):
    """A kernel's point, with its number beside it, if there is room."""

    point: RoofPoint
    number: int
    look: int
    at: complex
    number_at: complex | None = None


def svg(chart: Chart, style: str = STYLE) -> str:
    """Return the picture of a chart as the text of an `<svg>` element.

    The same chart gives the same text. A page that has the style needs it only once.
    """
    if isinstance(chart, BarChart):
        name, parts = "bars.svg", _bars(chart)
    else:
        name, parts = "roofline.svg", _roofline(chart)
    template = _environment().get_template(name)
    return template.render(chart=chart, style=Markup(style), **parts)


@cache
def _environment() -> jinja2.Environment:
    made = environment(TEMPLATES, safe)
    used = (fitted, round_value, safe, width, written)
    made.globals |= {each.__name__: each for each in used}
    return made


def environment(folder: Path, safe: Callable[[str], str]) -> jinja2.Environment:
    """Return Jinja for the templates of a folder, in which all is escaped.

    ``safe`` makes a text harmless. A float is shown with one digit after the point.
    """

    def shown(value: object) -> object:
        if isinstance(value, float):
            return f"{value:.1f}".removesuffix(".0")
        text = isinstance(value, str) and not isinstance(value, Markup)
        return safe(str(value)) if text else value

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def _bars(chart: BarChart) -> dict[str, object]:
    """Return the axis and the rows of bars, and the numbers of their marks by name."""
    log, shown = chart.logarithmic, chart.bars[:MOST_BARS]
    series = _numbered(bar.series for bar in shown)
    names = _numbered(mark.label for bar in shown for mark in bar.marks)
    labels = max((width(bar.label) for bar in shown), default=0)
    ends = {
        bar: width(f"{written(bar.value, chart.unit)}  {bar.series}") for bar in shown
    }
    scale = around(
        (
            value
            for bar in shown
            for value in (bar.value, bar.low, bar.high, *(m.value for m in bar.marks))
            if has_place(value, log)
        ),
        EDGE + min(labels, LABEL_ROOM) + 12,
        WIDTH - EDGE - min(max(ends.values(), default=0), VALUE_ROOM) - 24,
        log,
    )
    rows = [_row(bar, scale, series[bar.series], names, ends[bar]) for bar in shown]
    return {"scale": scale, "names": names, "rows": rows}


def _row(
    bar: Bar, scale: Scale, look: int, names: dict[str, int], text: float
) -> BarRow:
    span = scale.between(scale.low if scale.logarithmic else 0, bar.value)
    spread = scale.between(bar.low, bar.high) if bar.low != bar.high else None
    marks = sorted(
        (scale.at(mark.value), names[mark.label])
        for mark in bar.marks
        if has_place(mark.value, scale.logarithmic)
    )
    after = max([scale.start, *(span or ()), *(spread or ())]) + 8
    for place, _ in marks:  # the value is not written over a mark
        if after - 8 < place < after + text + 8:
            after = place + 12
    return BarRow(bar, look, span, spread, marks, after)


def _roofline(chart: Roofline) -> dict[str, object]:
    """Return the axes, bounds and points of a roofline, with names and numbers."""
    placed = [
        one
        for one in chart.points
        if has_place(one.intensity, True) and has_place(one.flops, True)
    ]
    roofs = [one for one in chart.roofs if has_place(one.flops or one.bandwidth, True)]
    points, roofs = placed[:MOST_POINTS], roofs[:MOST_BOUNDS]
    x, y = _axes(points, roofs)
    series = _numbered(point.series for point in points)
    spots = [
        Spot(one, n, series[one.series], complex(x.at(one.intensity), y.at(one.flops)))
        for n, one in enumerate(points, 1)
    ]
    lines = [
        (bound(roof), ends) for roof in roofs if (ends := _ends(roof, roofs, x, y))
    ]
    taken = [_box(spot.at, 10, 10) for spot in spots]
    return {
        "x": x,
        "y": y,
        "lines": lines,
        "spots": [_with_number(spot, taken) for spot in spots],
        "several": len(series) > 1,
        "unplaced": len(chart.points) - len(placed),
        "more": len(placed) - len(points),
        "bounds": list(map(bound, chart.roofs)),
    }


def bound(roof: Roof) -> str:
    """Return a bound's label and value: memory 4.8 TB/s."""
    unit = "FLOP/s" if roof.flops else "B/s"
    return f"{roof.label} {written(roof.flops or roof.bandwidth or 0, unit)}"


def _axes(points: Sequence[RoofPoint], roofs: Sequence[Roof]) -> tuple[Scale, Scale]:
    """Return axes around the points, and around the bounds above them."""
    peaks = [one.flops for one in roofs if one.flops]
    rates = [one.bandwidth for one in roofs if one.bandwidth]
    ridges = [peak / rate for peak in peaks for rate in rates]
    across = [*(one.intensity for one in points), *ridges] or [1.0]
    up = [*(one.flops for one in points), *peaks] or [1.0]
    bottom = max(BOTTOM, 24.0 + 22 * len(points))
    return (
        Scale(min(across) / 4, max(across) * 4, LEFT, RIGHT, True),
        Scale(min(*up, max(up) / 1000) / 2, max(up) * 2.5, bottom, TOP, True),
    )


def _ends(
    one: Roof, roofs: Sequence[Roof], x: Scale, y: Scale
) -> tuple[complex, complex] | None:
    """Return where a bound begins and ends, within the axes and the other bounds."""
    rate = one.bandwidth or 1.0
    if one.flops:
        most = max((each.bandwidth or 0 for each in roofs), default=0)
        ends = [max(x.low, one.flops / most if most else 0), x.high]
    else:
        peak = max((each.flops or 0 for each in roofs), default=0) or y.high
        ends = [max(x.low, y.low / rate), min(x.high, peak / rate)]
    if ends[0] >= ends[1]:
        return None
    left, right = (complex(x.at(at), y.at(one.flops or at * rate)) for at in ends)
    return left, right


def _with_number(spot: Spot, taken: list[Box]) -> Spot:
    """Write a point's number beside it, where no other is; and take the place."""
    for offset in AROUND:
        at = spot.at + offset
        box = _box(at, width(str(spot.number), SMALL) + 3, 12)
        inside = box[0] >= LEFT and box[2] <= RIGHT + 8 and box[1] >= TOP
        if inside and not any(_meet(box, other) for other in taken):
            taken.append(box)
            return replace(spot, number_at=at)
    return spot


def _box(middle: complex, wide: float, high: float) -> Box:
    x, y = middle.real, middle.imag
    return x - wide / 2, y - high / 2, x + wide / 2, y + high / 2


def _meet(one: Box, other: Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: n for n, name in enumerate(dict.fromkeys(names))}
