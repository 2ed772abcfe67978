"""Turn records into blocks, which each display renders, and figures into words.

runs.py (a record, a list of records), ending.py (the end of a run), findings.py
(figures, a measured submission), plans.py, benched.py, diff.py (two runs)
       -> phrases.py (figures as text), blocks.py (the parts of a report)
"""

from __future__ import annotations

from runner.figures.table import main_part, one_line
from runner.report.blocks import Block, Pairs, Table
from runner.report.ending import Series, listed, summary
from runner.report.ending import figures as figures_in_words
from runner.report.findings import figures, incomplete, measured
from runner.report.phrases import (
    ago,
    condition,
    date,
    elsewhere,
    fitted,
    in_round,
    mismatch,
    processes,
    seconds,
    titled,
    words,
)
from runner.report.plans import plan
from runner.report.runs import Listed, of, table
