"""The bounds of a roofline: lines that rise to the highest rate, and level ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import atan2, cos, degrees, sin

from msgspec import Struct

from runner.pictures import axes as scales
from runner.pictures import units
from runner.pictures.boxes import HEIGHT, Boxes
from runner.pictures.canvas import Axes, text_width
from runner.pictures.colours import DASHES, FAINT, TEXT
from runner.pictures.labels import fitted
from runner.pictures.sheet import SMALL, Sheet
from runner.report.charts import Roof

MOST_BOUNDS = 8
PLACES = 12
"""How many places along its line are tried for the text of a bound."""

WIDEST = 200
ABOVE, STEP = 5, 8

Place = tuple[float, float]


class Bound(Struct, frozen=True):
    """A bound that can be drawn: operations, or else bytes, a second."""

    label: str
    flops: float = 0
    bandwidth: float = 0

    @property
    def written(self) -> str:
        """The bound's value."""
        if self.flops:
            return units.written(self.flops, "FLOP/s")
        return units.written(self.bandwidth, "B/s")


def bounds(roofs: Iterable[Roof]) -> list[Bound]:
    """Return the bounds that can be drawn."""
    found = [
        Bound(roof.label, roof.flops or 0)
        if scales.drawable(roof.flops, logarithmic=True)
        else Bound(roof.label, bandwidth=roof.bandwidth or 0)
        for roof in roofs
        if scales.drawable(roof.flops, logarithmic=True)
        or scales.drawable(roof.bandwidth, logarithmic=True)
    ]
    return found[:MOST_BOUNDS]


def draw_bounds(sheet: Sheet, axes: Axes, found: Sequence[Bound], taken: Boxes) -> None:
    """Draw bounds within the range of axes, each with its text along the line."""
    lines = [(n, one, _ends(axes, one, found)) for n, one in enumerate(found)]
    lines = [(n, one, ends) for n, one, ends in lines if ends[0][0] < ends[1][0]]
    placed = []
    for n, one, ends in lines:
        axes.plot(
            *zip(*ends, strict=True),
            color=TEXT.light,
            linewidth=1.5,
            linestyle=DASHES[n % len(DASHES)],
            zorder=2,
            gid=sheet.titled(f"{one.label}: {one.written}"),
        )
        (left, low), (right, high) = (sheet.place(axes, *each) for each in ends)
        line = Line(left, low, atan2(low - high, right - left), right - left)
        for box in line.boxes(0, line.length, 3):
            taken.add(*box, owner=n)
        placed.append((n, one, line))
    for n, one, line in placed:
        _text(sheet, one, line, taken, n)


def _ends(axes: Axes, one: Bound, found: Sequence[Bound]) -> tuple[Place, Place]:
    """Return where a bound begins and ends, within the range and the other bounds."""
    (first, last), (lowest, highest) = axes.get_xlim(), axes.get_ylim()
    peak = max((each.flops for each in found), default=0) or highest
    width = max((each.bandwidth for each in found), default=0)
    if one.flops:
        begin = max(first, one.flops / width) if width else first
        return (begin, one.flops), (last, one.flops)
    begin = max(first, lowest / one.bandwidth)
    end = min(last, peak / one.bandwidth)
    return (begin, begin * one.bandwidth), (end, end * one.bandwidth)


class Line(Struct, frozen=True):
    """A line on a sheet, from its left end, rising by an angle."""

    left: float
    low: float
    angle: float
    across: float

    @property
    def length(self) -> float:
        """How long the line is."""
        return self.across / cos(self.angle)

    def at(self, along: float, above: float) -> Place:
        """Return a place so far along the line, and so far above it."""
        rise, run = sin(self.angle), cos(self.angle)
        return (
            self.left + along * run - above * rise,
            self.low - along * rise - above * run,
        )

    def boxes(
        self, begin: float, width: float, height: float, above: float = 0
    ) -> Iterator[tuple[float, float, float, float]]:
        """Yield small boxes that follow a part of the line."""
        steps = max(int(width // STEP), 1)
        for n in range(steps):
            x, y = self.at(begin + width * (n + 0.5) / steps, above + height / 2)
            side = max(width / steps * cos(self.angle), height)
            yield x - side / 2, y - height / 2, side, height


def _text(sheet: Sheet, one: Bound, line: Line, taken: Boxes, owner: int) -> None:
    """Write a bound's name and value along its line, where it crosses least."""
    left = WIDEST - text_width(f" {one.written}", SMALL)
    text = f"{fitted(one.label, left, SMALL)} {one.written}"
    room = WIDEST if line.angle <= 0 else min(WIDEST, max(line.length - 8, 20))
    text = fitted(text, room, SMALL)
    width = text_width(text, SMALL)
    spare = line.length - width - 8
    shares = [n / PLACES for n in range(PLACES + 1)]
    ways = [
        (4 + spare * (share if line.angle > 0 else 1 - share), above)
        for above in (ABOVE, -ABOVE - HEIGHT)
        for share in shares
    ]
    along, above = min(
        ways,
        key=lambda way: sum(
            taken.crossed(*box, owner=owner)
            for box in line.boxes(way[0], width, HEIGHT, way[1])
        ),
    )
    for box in line.boxes(along, width, HEIGHT, above):
        taken.add(*box)
    x, y = line.at(along, above)
    sheet.text(
        x,
        y,
        text,
        size=SMALL,
        colour=FAINT,
        room=width + 1,
        angle=degrees(line.angle),
    )
