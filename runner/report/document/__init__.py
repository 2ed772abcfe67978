"""A whole report of one or several runs: as data, and as the sections of a page. Pure.

    found = document.report([evidence], milestones)   # Report, as --format json has it
    document.sections(found)                          # for Markdown and HTML

gather.py (of the table of figures and the profiles) -> nouns.py (all of it);
conclusions.py (the answers), checklist.py (what a milestone asks for), tables.py,
rates.py (what kernels and layers reach) -> sections.py
"""

from __future__ import annotations

from runner.report.document.gather import report
from runner.report.document.nouns import Report
from runner.report.document.sections import pictures, sections

__all__ = ["Report", "pictures", "report", "sections"]
