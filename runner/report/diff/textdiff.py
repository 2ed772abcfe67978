"""The lines in which two texts differ, found in bounded time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from runner.report.diff.nouns import TextChange

AROUND = 2
"""How many equal lines are shown before and after those that differ."""

MOST_EDITS, MOST_STEPS = 400, 200_000
"""Where texts take more edits or comparisons, all between their ends is replaced."""

MOST_READ = 20_000
"""Lines after so many are not compared."""

MOST_LINES, LONGEST = 200, 200
"""How much is kept: lines, and characters of each."""

Edit = tuple[str, str]


def changed(before: str, after: str) -> TextChange:
    """Return the lines that differ, with a few around them.

    A line is cut after 200 characters, the result after 200 lines; of a long text only
    the first 20,000 lines are compared.
    """
    if before == after:
        return TextChange()
    old, new = before.splitlines(), after.splitlines()
    unread = max(len(old), len(new)) - MOST_READ
    found = _hunks(edits(old[:MOST_READ], new[:MOST_READ]))
    lines = tuple(map(_cut, islice(found, MOST_LINES)))
    if not lines and unread <= 0:
        lines = ("@@ only the ends of lines differ",)
    return TextChange(lines, sum(1 for _ in found) + max(unread, 0))


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..."


def _hunks(edits: Sequence[Edit]) -> Iterator[str]:
    """Yield the edits with the lines around them, a head before each group."""
    odd = [at for at, (mark, _) in enumerate(edits) if mark != " "]
    shown: set[int] = set()
    for at in odd:
        shown.update(range(max(at - AROUND, 0), min(at + AROUND + 1, len(edits))))
    number, last = 1, -2
    for at, (mark, line) in enumerate(edits):
        if at in shown:
            if last != at - 1:
                yield f"@@ line {number}"
            yield f"{mark}{line}"
            last = at
        number += mark != "-"


def edits(old: Sequence[str], new: Sequence[str]) -> list[Edit]:
    """Return the lines of both texts in order: kept " ", removed "-", added "+"."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    middle = _shortest(one, other)
    if middle is None:
        middle = [*(("-", line) for line in one), *(("+", line) for line in other)]
    kept_before = [(" ", line) for line in old[:start]]
    return [*kept_before, *middle, *((" ", line) for line in old[len(old) - end :])]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many lines two texts begin with alike."""
    for count, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return count
    return min(len(one), len(other))


def _shortest(old: Sequence[str], new: Sequence[str]) -> list[Edit] | None:
    """Return the fewest edits, by Myers' greedy algorithm; None if it takes too long.

    E. W. Myers, "An O(ND) difference algorithm and its variations", 1986: ``far[k]`` is
    how many lines of ``old`` the furthest path on the diagonal k has used.
    """
    far, steps = {1: 0}, 0
    trace: list[dict[int, int]] = []
    for count in range(min(len(old) + len(new), MOST_EDITS) + 1):
        trace.append(dict(far))
        for k in range(-count, count + 1, 2):
            down = k == -count or (k != count and far[k - 1] < far[k + 1])
            x = first = far[k + 1] if down else far[k - 1] + 1
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            far[k] = x
            steps += 1 + x - first
            if steps > MOST_STEPS:
                return None
            if x >= len(old) and x - k >= len(new):
                return _walked(old, new, trace)
    return None


def _walked(
    old: Sequence[str], new: Sequence[str], trace: Sequence[dict[int, int]]
) -> list[Edit]:
    """Return the edits of the path that ends at the ends of both texts."""
    found: list[Edit] = []
    x, y = len(old), len(new)
    for count in range(len(trace) - 1, -1, -1):
        far, k = trace[count], x - y
        down = k == -count or (k != count and far[k - 1] < far[k + 1])
        origin = k + 1 if down else k - 1
        x0 = far[origin] if count else 0
        y0 = x0 - origin if count else 0
        while x > x0 and y > y0:
            x, y = x - 1, y - 1
            found.append((" ", old[x]))
        if count and down:
            y -= 1
            found.append(("+", new[y]))
        elif count:
            x -= 1
            found.append(("-", old[x]))
    return found[::-1]
