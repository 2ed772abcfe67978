"""A whole report of one or several runs: as data, and as the sections of a page. Pure.

    found = document.report([evidence], milestones)   # Report, as --format json has it
    document.sections(found)                          # for Markdown and HTML

gather.py: summaries.py (the run), times.py (run times), networks.py (Op Times and
correctness), shares.py (kernels and API calls); checklist.py (what a milestone asks
for) -> nouns.py (all of it) -> sections.py: head.py, checks.py, beside.py, tables.py,
charts.py, layers.py, analysed.py
"""

from __future__ import annotations

from runner.report.document.gather import report
from runner.report.document.nouns import Report
from runner.report.document.sections import sections

__all__ = ["Report", "report", "sections"]
