"""Turn records into blocks, which each display renders, and figures into words.

run.py (a whole record, a list of records) -> figures.py (findings)
measurement.py (a measured submission), diff/ (two runs; imported where it is used)
       -> words.py (figures as text), blocks.py (the parts of a report)
"""

from __future__ import annotations

from runner.figures.commands import main_part, one_line
from runner.report.blocks import Block, Pairs, Table
from runner.report.figures import figures, incomplete
from runner.report.measurement import measured
from runner.report.names import fitted
from runner.report.plan import plan
from runner.report.run import Listed, of, table
from runner.report.summary import figures as figures_in_words
from runner.report.summary import listed, summary
from runner.report.versus import Series
from runner.report.words import (
    ago,
    condition,
    date,
    elsewhere,
    in_round,
    mismatch,
    processes,
    seconds,
    size,
    titled,
    words,
)
