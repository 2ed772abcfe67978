"""Read the error counts of compute-sanitizer, cuda-memcheck and valgrind.

The summary of each check is read: `========= ERROR SUMMARY: 7 errors`, or valgrind's
`==305== ERROR SUMMARY: 7 errors from 3 contexts (suppressed: 0 from 0)`.
"""

from __future__ import annotations

import re

from runner.findings.units import keep

MOST_CHECKS = 1000
"""The most that are kept; after that the newest replaces the last."""

_SUMMARY = re.compile(
    r"={2,9}(?:[0-9]{1,9}==)? ERROR SUMMARY: (?P<errors>[0-9]{1,9}) errors?"
    r"(?: from [0-9]{1,9} contexts? \(suppressed: [0-9]{1,9} from [0-9]{1,9}\))?"
)


class MemoryCheckReader:
    """A reader that collects the number of errors of each check."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self.left_out = 0

    def read(self, line: str) -> None:
        """Read one line, cleaned and stripped."""
        if line[:2] == "==" and (match := _SUMMARY.fullmatch(line)) is not None:
            self.left_out += keep(self.found, int(match["errors"]), MOST_CHECKS)
