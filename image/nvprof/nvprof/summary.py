"""Make the rows of nvprof's summary out of totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nvprof.stream import Section


class Total(NamedTuple):
    """What one kernel, kind of copy or API call took on one GPU, in nanoseconds."""

    section: Section
    name: str
    device: int
    calls: int
    total: int
    least: int
    most: int


class Row(NamedTuple):
    """One row as it is printed: a percentage, and nanoseconds."""

    percent: float
    total: int
    calls: int
    average: int
    least: int
    most: int
    name: str


def merged(totals: Iterable[Total]) -> list[Total]:
    """Add up what has one name, whatever GPU it ran on."""
    found: dict[tuple[Section, str], Total] = {}
    for each in totals:
        key = (each.section, each.name)
        one = found.get(key)
        found[key] = each if one is None else _sum(one, each)
    return list(found.values())


def _sum(one: Total, other: Total) -> Total:
    return one._replace(
        calls=one.calls + other.calls,
        total=one.total + other.total,
        least=min(one.least, other.least),
        most=max(one.most, other.most),
    )


def rows(totals: Iterable[Total], section: Section) -> list[Row]:
    """Give a section's rows, the longest first, with their shares of the section.

    Averages are cut to whole nanoseconds, as nvprof cut them.
    """
    chosen = [each for each in merged(totals) if each.section == section]
    chosen.sort(key=lambda each: (-each.total, each.name))
    whole = sum(each.total for each in chosen)
    return [
        Row(
            100 * each.total / whole if whole else 0.0,
            each.total,
            each.calls,
            each.total // each.calls,
            each.least,
            each.most,
            each.name,
        )
        for each in chosen
        if each.calls
    ]


def at_level(totals: Iterable[Total], level: str) -> list[Total]:
    """Leave out API calls of another level: `runtime` are cuda*, `driver` the rest."""
    return [
        each
        for each in totals
        if level in ("all", "none")
        or each.section != Section.CALLS
        or each.name.startswith("cuda") == (level == "runtime")
    ]
