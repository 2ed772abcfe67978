"""Choose at most so many spans to draw: the longest as they are, the others merged.

Neighbours in a lane that are small on the screen become one span. It begins with the
first of them and is as long as they keep the lane busy, so that the time in which a
lane is busy stays the same to the nanosecond.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from runner.traces.spans import Spans

ROOT = -1
"""The level of spans that no longest span encloses."""

FINENESS = 2
"""Merging begins with this many times more cells than there may be spans."""


class Pick(NamedTuple):
    """A span to draw. ``ref`` refers to the longest of those it stands for.

    One that is not merged is shorter than ``lasted`` where others of its lane are drawn
    for a part of its time.
    """

    lane: int
    start: int
    length: int
    ref: int
    merged: int
    lasted: int


class MergedSpans:
    """Neighbours of one level and cell; ``busy`` is the time that they add."""

    __slots__ = ("busy", "cell", "lane", "level", "longest", "merged", "ref", "start")

    def __init__(
        self, lane: int, level: int, cell: int, start: int, ref: int, longest: int
    ) -> None:
        self.lane = lane
        self.level = level
        self.cell = cell
        self.start = start
        self.ref = ref
        self.longest = longest
        self.busy = 0
        self.merged = 1

    def take(self, other: MergedSpans) -> None:
        """Add the group that follows this one."""
        if not self.busy:
            self.start = other.start
        self.busy += other.busy
        self.merged += other.merged
        if other.longest > self.longest:
            self.ref, self.longest = other.ref, other.longest


def picked(spans: Spans, most: int) -> list[Pick]:
    """Return at most ``most`` spans, but one for each lane at least, in order."""
    if len(spans) <= most:
        columns = zip(spans.lane, spans.start, spans.length, spans.ref, strict=True)
        return _sorted(Pick(*each, 1, each[2]) for each in columns)
    longer_than = _threshold(spans.length, most // 3)
    lanes = len(set(spans.lane))
    extent = max(spans.start) - min(spans.start) + 1
    width = max(1, lanes * extent // max(1, FINENESS * most))
    entries: list[Pick | MergedSpans] = []
    _fill(entries, spans, longer_than, width)
    while len(entries) > most and (coarser := _coarser(entries)) is not None:
        entries = coarser
    if len(entries) > most:
        entries = _flat(entries)
    return _sorted(
        Pick(each.lane, each.start, each.busy, each.ref, each.merged, each.longest)
        if isinstance(each, MergedSpans)
        else each
        for each in entries
    )


def _sorted(picks: Iterable[Pick]) -> list[Pick]:
    return sorted(picks, key=lambda each: (each.lane, each.start, -each.length))


def _threshold(lengths: array[int], count: int) -> int:
    """Return a length that fewer than ``count`` spans exceed, the least if there is."""
    left = count
    for bits, number in sorted(Counter(map(int.bit_length, lengths)).items())[::-1]:
        if number < left:
            left -= number
            continue
        least, most = (1 << bits) >> 1, 1 << bits
        same = sorted((each for each in lengths if least <= each < most), reverse=True)
        return same[max(0, left - 1)]
    return 0


def _fill(
    entries: list[Pick | MergedSpans], spans: Spans, longer_than: int, width: int
) -> None:
    """Append the longest spans, and groups of the others that start in one cell.

    A lane is read once, in the order of starts. ``front`` is how far the groups of the
    lane reach, ``kept_front`` how far its longest spans do. A group counts the time
    beyond both, or, within one of the longest spans, the time beyond ``inner_front``.
    """
    lane, group, level = -1, None, ROOT
    front = kept_front = inner_front = cell_end = 0
    open_ends: list[tuple[int, int]] = []  # of the longest: the end, and its level
    for place, start, length, ref in spans.in_order():
        end = start + length
        if place != lane:
            lane, group = place, None
            front = kept_front = start
            open_ends.clear()
        if length > longer_than:
            _trim(entries, lane, front - start)
            entries.append(Pick(lane, start, length, ref, 1, length))
            kept_front, group = max(kept_front, end), None
            open_ends.append((end, len(entries)))
            continue
        level = ROOT
        if start >= kept_front:
            begun = start if start > front else front
        else:
            while open_ends and open_ends[-1][0] <= start:
                open_ends.pop()
            if open_ends and end <= open_ends[-1][0]:
                level = open_ends[-1][1]
                if group is None or group.level != level:
                    inner_front = start
                begun = max(start, inner_front)
                inner_front = max(inner_front, end)
            else:
                begun = max(start, front, kept_front)
        if end > front and level == ROOT:
            front = end
        added = end - begun
        if group is None or start >= cell_end or group.level != level:
            begun = begun if added > 0 else start
            cell = start // width
            cell_end = (cell + 1) * width
            group = MergedSpans(lane, level, cell, begun, ref, length)
            entries.append(group)
        else:
            group.merged += 1
            if length > group.longest:
                group.ref, group.longest = ref, length
            if not group.busy and added > 0:
                group.start = begun
        if added > 0:
            group.busy += added


def _trim(entries: list[Pick | MergedSpans], lane: int, over: int) -> None:
    """Take ``over`` from the last groups: the time that a longest span covers too.

    Every span before it is shorter and starts earlier, so that none ends after it.
    """
    place = len(entries) - 1
    while over > 0 and place >= 0:
        entry = entries[place]
        if isinstance(entry, Pick) or entry.lane != lane:
            return
        if entry.level == ROOT:
            taken = min(over, entry.busy)
            entry.busy -= taken
            over -= taken
        place -= 1


def _coarser(entries: list[Pick | MergedSpans]) -> list[Pick | MergedSpans] | None:
    """Join neighbours whose cells are one of twice the width; None if all are."""
    found: list[Pick | MergedSpans] = []
    last: MergedSpans | None = None
    wide = False
    for entry in entries:
        if isinstance(entry, Pick):
            last = None
            found.append(entry)
            continue
        wide = wide or entry.cell > 0
        entry.cell >>= 1
        if (
            last is not None
            and last.cell == entry.cell
            and last.level == entry.level
            and last.lane == entry.lane
        ):
            last.take(entry)
        else:
            last = entry
            found.append(entry)
    return found if wide else None


def _flat(entries: list[Pick | MergedSpans]) -> list[Pick | MergedSpans]:
    """Join neighbours of all levels; time within a longest span is the latter's."""
    found: list[Pick | MergedSpans] = []
    last: MergedSpans | None = None
    for entry in entries:
        if isinstance(entry, Pick):
            last = None
            found.append(entry)
            continue
        if entry.level != ROOT:
            entry.busy = 0
        if last is not None and last.lane == entry.lane:
            last.take(entry)
        else:
            last = entry
            found.append(entry)
    return found
