"""Draw a bar chart of times with their floors, as SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, LEFT, RIGHT = 860, 170, 90
ROW, BAR, GAP, TOP, BOTTOM = 24, 14, 30, 78, 34
COLOURS = ("#4878a8", "#9cc0e0")  # conv1 and conv2
FLOOR, PEER, INK, PALE = "#c0392b", "#2e7d32", "#222222", "#dddddd"


@dataclass(frozen=True, slots=True)
class Bar:
    """A name, the times of its layers, their floor, and cuDNN's time."""

    name: str
    parts: tuple[float, ...]
    floor: float
    peer: float | None

    @property
    def total(self) -> float:
        """Return the sum of the times."""
        return sum(self.parts)


class Scale:
    """Convert times to positions on a logarithmic axis."""

    def __init__(self, times: Iterable[float]) -> None:
        seen = list(times)
        self.low = _below(min(seen))
        self.high = _above(max(seen))

    def x(self, ms: float) -> float:
        """Return the position of a time."""
        span = log10(self.high / self.low)
        return LEFT + (WIDTH - LEFT - RIGHT) * log10(ms / self.low) / span

    def ticks(self) -> list[float]:
        """Return 1, 2 and 5 of each decade in the range."""
        decades = range(floor(log10(self.low)) - 1, ceil(log10(self.high)) + 1)
        every = [digit * 10.0**n for n in decades for digit in (1, 2, 5)]
        return [t for t in every if self.low * 0.999 <= t <= self.high * 1.001]


def _below(ms: float) -> float:
    decade = 10.0 ** floor(log10(ms))
    return decade * max(d for d in (1, 2, 5) if d * decade <= ms)


def _above(ms: float) -> float:
    decade = 10.0 ** floor(log10(ms))
    return decade * min(d for d in (1, 2, 5, 10) if d * decade >= ms)


def draw(title: str, groups: Mapping[str, Sequence[Bar]]) -> str:
    """Draw a group of bars for each name; without bars, only the title."""
    bars = [bar for group in groups.values() for bar in group]
    height = TOP + BOTTOM + sum(GAP + ROW * len(group) for group in groups.values())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 24, title, size=15),
    ]
    if bars:
        peers = [bar.peer for bar in bars if bar.peer]
        scale = Scale([t for b in bars for t in (b.total, b.floor)] + peers)
        lines += [*_legend(), *_axis(scale, height)]
        y = TOP
        for name, group in groups.items():
            lines.append(_text(16, y + 16, name, size=13, weight="bold"))
            y += GAP - 6
            for bar in group:
                lines += _bar(bar, scale, y)
                y += ROW
            y += 6
    return "\n".join([*lines, "</svg>\n"])


def _bar(bar: Bar, scale: Scale, y: float) -> list[str]:
    """Draw a bar, divided in the ratio of its times, its floor, and cuDNN's time."""
    start, end = scale.x(scale.low), scale.x(bar.total)
    lines = [_text(LEFT - 8, y + 12, bar.name, anchor="end")]
    x = start
    for part, colour in zip(bar.parts, COLOURS, strict=False):
        width = (end - start) * part / bar.total
        lines.append(_rect(x, y, width, BAR, colour))
        x += width
    lines.append(_rect(scale.x(bar.floor) - 1, y - 3, 2, BAR + 6, FLOOR))
    after = end
    if bar.peer:
        at = scale.x(bar.peer)
        lines.append(_diamond(at, y + BAR / 2, PEER))
        if abs(at - end) < 60 and at > end - 8:
            after = at + 6
    lines.append(_text(after + 6, y + 12, f"{bar.total:.3g}"))
    return lines


def _legend() -> list[str]:
    y = 44
    return [
        *(_rect(16, y - 9, 12, 10, COLOURS[0]), _text(32, y, "conv1")),
        *(_rect(86, y - 9, 12, 10, COLOURS[1]), _text(102, y, "conv2")),
        _text(150, y, "(bars are divided in their ratio; the axis is logarithmic)"),
        *(_rect(500, y - 12, 2, 16, FLOOR), _text(508, y, "floor")),
        *(_diamond(562, y - 4, PEER), _text(572, y, "cuDNN, same class and run")),
    ]


def _axis(scale: Scale, height: int) -> list[str]:
    lines = []
    for tick in scale.ticks():
        x = scale.x(tick)
        lines.append(_rect(x - 0.5, TOP - 8, 1, height - TOP - BOTTOM + 12, PALE))
        lines.append(_text(x, height - BOTTOM + 20, f"{tick:g}", anchor="middle"))
    return lines


def _text(
    x: float, y: float, text: str, size: int = 12, anchor: str = "", weight: str = ""
) -> str:
    more = f' text-anchor="{anchor}"' if anchor else ""
    more += f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{INK}"{more}>'
        f"{escape(text)}</text>"
    )


def _rect(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{colour}"/>'
    )


def _diamond(x: float, y: float, colour: str) -> str:
    corners = ((x - 6, y), (x, y - 6), (x + 6, y), (x, y + 6))
    points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
    return f'<polygon points="{points}" fill="{colour}"/>'
