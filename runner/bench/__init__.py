"""Two runs measured beside each other: all of `rai bench` except its display.

sources.py (a folder or a commit) -> preparation.py (both runs, checked and startable)
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
from runner.bench.preparation import BenchSides, prepared
from runner.bench.sources import BenchSource, source

__all__ = [
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
