"""Findings without what they are of, for tests of the figures alone."""

from __future__ import annotations

from msgspec.structs import replace

from runner.core import Findings, Source
from runner.figures import scanner


def bare(found: Findings) -> Findings:
    """Return the figures without their sources."""

    def each(figures):
        return tuple(replace(one, source=Source()) for one in figures)

    return replace(
        found,
        inferences=each(found.inferences),
        time_usage=each(found.time_usage),
        profiles=each(found.profiles),
        counters=each(found.counters),
        under=(),
    )


def find(text: bytes | str) -> Findings:
    """Return the figures of a whole output without their sources."""
    return bare(scanner.find(text))
