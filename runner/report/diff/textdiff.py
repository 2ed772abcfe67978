"""The lines in which two texts differ."""

from __future__ import annotations

import difflib
from itertools import islice

from runner.report.diff.nouns import TextChange

AROUND = 2
"""How many equal lines are shown before and after those that differ."""

MOST_READ = 1000
"""Lines after so many are not compared; difflib's time grows with their square."""

MOST_LINES, LONGEST = 200, 200
"""How much is kept: lines, and characters of each."""


def changed(before: str, after: str) -> TextChange:
    """Return the lines that differ, with a few around them, as a unified diff.

    A line is cut after 200 characters, the result after 200 lines; of a long text only
    the first 1,000 lines are compared.
    """
    if before == after:
        return TextChange()
    old, new = before.splitlines(), after.splitlines()
    unread = max(len(old), len(new)) - MOST_READ
    found = difflib.unified_diff(
        old[:MOST_READ], new[:MOST_READ], n=AROUND, lineterm=""
    )
    lines = tuple(map(_cut, islice(found, 2, MOST_LINES + 2)))  # after the two names
    if not lines and unread <= 0:
        lines = ("@@ only the ends of lines differ",)
    return TextChange(lines, sum(1 for _ in found) + max(unread, 0))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."
