"""What the pictures of a report show, as data; ``pictures`` draws it."""

from __future__ import annotations

from msgspec import Struct


class Mark(Struct, frozen=True):
    """A value to compare a bar with; marks with one label look alike."""

    label: str
    value: float


class Bar(Struct, frozen=True):
    """One bar, and how far its samples spread, if there were several.

    Bars with one ``series`` have one colour.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    series: str = ""
    marks: tuple[Mark, ...] = ()


class BarChart(Struct, frozen=True):
    """Bars from above to below; ``unit`` is "s", "%" or another word for the values."""

    title: str
    unit: str
    bars: tuple[Bar, ...]
    logarithmic: bool = False


class Roof(Struct, frozen=True):
    """A bound of a GPU: ``flops`` a second, or ``bandwidth`` in bytes a second."""

    label: str
    flops: float | None = None
    bandwidth: float | None = None


class RoofPoint(Struct, frozen=True):
    """A kernel: operations per byte, and operations a second."""

    label: str
    intensity: float
    flops: float
    series: str = ""


class Roofline(Struct, frozen=True):
    """Kernels below the bounds of their GPU, on two logarithmic axes."""

    title: str
    roofs: tuple[Roof, ...]
    points: tuple[RoofPoint, ...]


Chart = BarChart | Roofline


class Picture(Struct, frozen=True):
    """A chart in a report; ``name`` is unique in it, ``text`` says what it shows."""

    name: str
    text: str
    chart: Chart


class TimelineView(Struct, frozen=True):
    """The place in a report for the timeline of a file that a profiler wrote."""

    path: str
    title: str
