"""A record as blocks that each face renders its own way; and its words for figures.

run.py (a whole record, a list of records) -> figures.py (what its output held)
       -> words.py (how a figure is written), blocks.py (what a report is made of)
"""

from __future__ import annotations

from runner.report.blocks import Block, Pairs, Table
from runner.report.figures import figures
from runner.report.names import fitted, shortened
from runner.report.plan import plan
from runner.report.profiles import profile
from runner.report.run import listing, of, result
from runner.report.words import (
    ago,
    allowed,
    brief,
    condition,
    one_line,
    outcome,
    processes,
    seconds,
    size,
    words,
)

__all__ = [
    "Block",
    "Pairs",
    "Table",
    "ago",
    "allowed",
    "brief",
    "condition",
    "figures",
    "fitted",
    "listing",
    "of",
    "one_line",
    "outcome",
    "plan",
    "processes",
    "profile",
    "result",
    "seconds",
    "shortened",
    "size",
    "words",
]
