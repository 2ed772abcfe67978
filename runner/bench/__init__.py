"""Runs measured beside each other: all of `rai bench` except its display.

sides.py (folders or commits, to runs that are checked and can start)
    -> interleaving.py (their rounds, in random order within each pair)
"""

from __future__ import annotations

from runner.bench.interleaving import (
    BenchEnded,
    BenchEvent,
    BenchOutcome,
    BenchPlan,
    PairEnded,
    SideEvent,
    carry_out,
)
from runner.bench.sides import LABELS, BenchSides, BenchSource, prepared, source

__all__ = [
    "LABELS",
    "BenchEnded",
    "BenchEvent",
    "BenchOutcome",
    "BenchPlan",
    "BenchSides",
    "BenchSource",
    "PairEnded",
    "SideEvent",
    "carry_out",
    "prepared",
    "source",
]
