"""Find figures in a program's output: bytes to clean lines, lines to Findings.

    bytes -> scanner.py (lines without escapes)
          -> sources.py (what the figures are of)
          -> inference.py, timing.py, profiles.py, gpu_faults.py
             (one reader for each kind of figure; profiles.py has
             tables.py for nvprof's and nsys's tables, ncu.py for ncu's)

Only what a program prints is read: a figure alone on its line, in one of the printed
forms. Prose, source code and tables written by hand are ignored.
"""

from __future__ import annotations

from runner.core.figures import combined, fitting
from runner.findings.scanner import EVERYTHING, Scanner, find
from runner.findings.sources import attributed
