"""How many errors a memory checker counted: compute-sanitizer, cuda-memcheck, valgrind.

Of each check its summary is read: `========= ERROR SUMMARY: 7 errors`, or valgrind's
`==305== ERROR SUMMARY: 7 errors from 3 contexts (suppressed: 0 from 0)`.
"""

from __future__ import annotations

import re

from runner.findings.units import keep

MOST_CHECKS = 1000
"""How many are kept; past it the last one replaces its predecessor."""

_SUMMARY = re.compile(
    r"={2,9}(?:[0-9]{1,9}==)? ERROR SUMMARY: (?P<errors>[0-9]{1,9}) errors?"
    r"(?: from [0-9]{1,9} contexts? \(suppressed: [0-9]{1,9} from [0-9]{1,9}\))?"
)


class MemoryCheckReader:
    """Collects the count of errors of each check."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def read(self, line: str) -> None:
        """Take one clean line, stripped."""
        if line[:2] == "==" and (match := _SUMMARY.fullmatch(line)) is not None:
            keep(self.found, int(match["errors"]), MOST_CHECKS)
