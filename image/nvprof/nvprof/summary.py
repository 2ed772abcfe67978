"""Compute the rows of nvprof's summary from totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nvprof.stream import Section


class Total(NamedTuple):
    """The total of a kernel, kind of copy or API call on one GPU, in nanoseconds."""

    section: Section
    name: str
    device: int
    calls: int
    total: int
    least: int
    most: int


class Row(NamedTuple):
    """A row of the summary: a percentage, and nanoseconds."""

    percent: float
    total: int
    calls: int
    average: int
    least: int
    most: int
    name: str


def merged(totals: Iterable[Total]) -> list[Total]:
    """Return totals summed over all GPUs."""
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
    """Return a section's rows, longest first, with their shares of the section.

    Averages are truncated to whole nanoseconds, as in nvprof.
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
    """Filter API calls by level: `runtime` are cuda*, `driver` the others."""
    return [
        each
        for each in totals
        if level in ("all", "none")
        or each.section != Section.CALLS
        or each.name.startswith("cuda") == (level == "runtime")
    ]
