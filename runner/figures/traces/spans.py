"""A timeline of the spans that were chosen, with names and facts of each.

Choose at most so many spans to draw: the longest as they are, the others merged.

Neighbours in a lane that are small on the screen become one span. It begins with the
first of them and is as long as they keep the lane busy, so that the time in which a
lane is busy stays the same to the nanosecond.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress, islice
from operator import gt
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from runner.core.evidence import Lane, LaneKind, Timeline

LaneKey = tuple[object, ...]
"""What tells a lane apart."""

MOST_LANES = 400
"""More streams and threads than these share one lane."""

MOST_SPANS = 4_000_000
"""A timeline of more is of the first of them; a span takes 32 bytes here."""

MOST_NS = 1 << 53
"""104 days. JavaScript's numbers are exact up to here."""

MOST_TEXT = 4 << 20
"""Characters of names and notes; spans beyond them have neither."""

_KINDS = list(LaneKind)
_MANY = Lane("", "all other streams and threads", LaneKind.API)


class Description(Struct, frozen=True):
    """What is shown of a span besides its times.

    Spans of one file that belong together have an equal ``link``.
    """

    name: str
    facts: tuple[tuple[str, str], ...] = ()
    link: Hashable = None


class Interned(dict[Any, int]):
    """Numbers values as they first come; those beyond ``most`` share its number."""

    def __init__(self, most: int = MOST_SPANS) -> None:
        self._most = most

    def __missing__(self, key: Any) -> int:  # noqa: ANN401 - any value
        number = len(self)
        if number >= self._most:
            return self._most
        self[key] = number
        return number


class Spans:
    """Columns of one length: a span's lane, start, length, and a reference to more.

    ``left_out`` is how many there were over ``MOST_SPANS``.
    """

    def __init__(self) -> None:
        self.lanes = Interned(MOST_LANES)
        self.lane = array("I")
        self.start = array("q")
        self.length = array("q")
        self.ref = array("q")
        self.left_out = 0

    def __len__(self) -> int:
        return len(self.start)

    def extend(
        self,
        keys: Iterable[LaneKey],
        starts: Sequence[int],
        lengths: Sequence[int],
        refs: Iterable[int],
    ) -> None:
        """Append spans of as many keys of lanes, starts, lengths and references."""
        self.lane.extend(map(self.lanes.__getitem__, keys))
        self.start.extend(starts)
        self.length.extend(lengths)
        self.ref.extend(refs)

    @property
    def room(self) -> int:
        """Return how many more spans there may be."""
        return max(0, MOST_SPANS - len(self))

    def in_order(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the lane, start, length and reference of each, by lane and start."""
        columns = (self.lane, self.start, self.length, self.ref)
        if self._is_in_order():
            return zip(*columns, strict=True)
        order = sorted(range(len(self)), key=self.start.__getitem__)
        if len(self.lanes) > 1:
            order.sort(key=self.lane.__getitem__)
        return zip(*(map(each.__getitem__, order) for each in columns), strict=True)

    def _is_in_order(self) -> bool:
        """Return whether a profiler wrote one lane after the other, by start."""
        lane, start = self.lane, self.start
        earlier = map(gt, start, islice(start, 1, None))
        return not any(map(gt, lane, islice(lane, 1, None))) and all(
            lane[place] != lane[place + 1]
            for place in compress(range(len(start)), earlier)
        )


def timeline(
    spans: Spans,
    lane: Callable[[Any], Lane],
    describe: Callable[[int, bool], Description],
    most: int,
) -> Timeline:
    """Choose spans, and describe them; ``lane`` returns the lane of a key."""
    picks = picked(spans, most)
    places, lanes = _lanes(spans, lane)
    picks.sort(key=lambda each: places[each.lane])
    begin = min(spans.start, default=0)
    names, notes = Interned(), Interned()
    notes[()] = 0
    found = Timeline([], lanes, [])
    links: list[Hashable] = []
    text = 0
    for pick in picks:
        known = describe(pick.ref, pick.merged == 1)
        if pick.merged == 1 and pick.lasted != pick.length:
            lasted = ("whole duration", f"{pick.lasted:,} ns, in part beside others")
            known = Description(known.name, (lasted, *known.facts), known.link)
        if known.name not in names:
            text += len(known.name)
        if known.facts not in notes:
            text += sum(len(word) for pair in known.facts for word in pair)
        if text > MOST_TEXT:
            known = Description("(name left out)")
        found.lane.append(places[pick.lane])
        found.start.append(pick.start - begin)
        found.length.append(pick.length)
        found.merged.append(pick.merged)
        found.name.append(names[known.name])
        found.facts.append(notes[known.facts])
        links.append(known.link)
    found.link.extend(_joined(links))
    found.names.extend(names)
    found.notes.extend(notes)
    found.left_out = len(spans) + spans.left_out - len(picks)
    return found


def _lanes(spans: Spans, lane: Callable[[Any], Lane]) -> tuple[list[int], list[Lane]]:
    """Return the places of the numbered lanes in their order, and the lanes in it.

    Those of a process stand together, GPUs first; so do processes that have any.
    """
    keys: list[Any] = list(spans.lanes)
    lanes = [lane(key) for key in keys]
    processes = Interned()
    for each in sorted(lanes, key=lambda lane: lane.kind is not LaneKind.GPU):
        processes[each.process]
    order = sorted(
        range(len(lanes)),
        key=lambda n: (
            processes[lanes[n].process],
            _KINDS.index(lanes[n].kind),
            [(part is None, isinstance(part, str), part) for part in keys[n][1:]],
        ),
    )
    places = sorted(range(len(lanes)), key=order.__getitem__)
    calls = {(one.process, one.title) for one in lanes if one.kind is LaneKind.API}
    ordered = [
        replace(one, title=f"ranges of {one.title}")
        if one.kind is LaneKind.RANGE and (one.process, one.title) in calls
        else one
        for one in map(lanes.__getitem__, order)
    ]
    if MOST_LANES in spans.lane:
        places.append(len(ordered))
        ordered.append(_MANY)
    return places, ordered


def _joined(links: list[Hashable]) -> list[int]:
    """Return a number for each link that joins at least two spans, 0 for the others."""
    together = Counter(link for link in links if link is not None)
    numbers = Interned()
    return [
        1 + numbers[link] if link is not None and together[link] > 1 else 0
        for link in links
    ]


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


class MergedSpans(Struct, gc=False):
    """Neighbours of one level and cell; ``busy`` is the time that they add."""

    lane: int
    level: int
    cell: int
    start: int
    ref: int
    longest: int
    busy: int = 0
    merged: int = 1

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
    longer_than = heapq.nlargest(max(1, most // 3), spans.length)[-1]
    lanes = len(set(spans.lane))
    extent = max(spans.start) - min(spans.start) + 1
    width = max(1, lanes * extent // max(1, FINENESS * most))
    entries: list[Pick | MergedSpans] = []
    _fill(entries, spans, longer_than, width)
    flat = False
    while len(entries) > most and not flat:
        flat = not any(isinstance(e, MergedSpans) and e.cell for e in entries)
        entries = _coarser(entries, flat=flat)
    return _sorted(
        Pick(each.lane, each.start, each.busy, each.ref, each.merged, each.longest)
        if isinstance(each, MergedSpans)
        else each
        for each in entries
    )


def _sorted(picks: Iterable[Pick]) -> list[Pick]:
    return sorted(picks, key=lambda each: (each.lane, each.start, -each.length))


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


def _coarser(
    entries: list[Pick | MergedSpans], *, flat: bool
) -> list[Pick | MergedSpans]:
    """Join neighbours whose cells are one of twice the width.

    ``flat`` joins those of all levels; time within a longest span is the latter's.
    """
    found: list[Pick | MergedSpans] = []
    last: MergedSpans | None = None
    for entry in entries:
        if isinstance(entry, Pick):
            last = None
            found.append(entry)
            continue
        entry.cell >>= 1
        if flat and entry.level != ROOT:
            entry.level, entry.busy = ROOT, 0
        where = (entry.lane, entry.level, entry.cell)
        if last is not None and where == (last.lane, last.level, last.cell):
            last.take(entry)
        else:
            last = entry
            found.append(entry)
    return found
