"""Turn records into blocks, which each display renders, and figures into words.

run.py (a whole record, a list of records) -> figures.py (findings)
measurement.py (a measured submission)
       -> words.py (figures as text), blocks.py (the parts of a report)
"""

from __future__ import annotations

from runner.report.blocks import Block, Pairs, Table
from runner.report.differences import Difference, changes, differences
from runner.report.figures import figures, incomplete
from runner.report.measurement import measured
from runner.report.names import fitted, shortened
from runner.report.plan import plan
from runner.report.profiles import profile
from runner.report.run import Listed, history, of, result, table
from runner.report.summary import summary
from runner.report.versus import Series, versus
from runner.report.words import (
    ago,
    allowed,
    brief,
    condition,
    date,
    day,
    elsewhere,
    main_part,
    mismatch,
    named_by,
    one_line,
    outcome,
    processes,
    seconds,
    size,
    titled,
    words,
)

__all__ = [
    "Block",
    "Difference",
    "Listed",
    "Pairs",
    "Series",
    "Table",
    "ago",
    "allowed",
    "brief",
    "changes",
    "condition",
    "date",
    "day",
    "differences",
    "elsewhere",
    "figures",
    "fitted",
    "history",
    "incomplete",
    "main_part",
    "measured",
    "mismatch",
    "named_by",
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
    "summary",
    "table",
    "titled",
    "versus",
    "words",
]
