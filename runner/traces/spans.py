"""The spans of a file as columns, before any is merged."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, islice
from operator import gt

LaneKey = tuple[object, ...]
"""What tells a lane apart."""

MOST_LANES = 400
"""More streams and threads than these share one lane."""

MOST_SPANS = 4_000_000
"""A timeline of more is of the first of them; a span takes 32 bytes here."""

MOST_NS = 1 << 53
"""104 days. JavaScript's numbers are exact up to here."""


class LaneNumbers(dict[LaneKey, int]):
    """Numbers lanes by what tells them apart, in the order in which they come."""

    def __missing__(self, key: LaneKey) -> int:
        number = len(self)
        if number >= MOST_LANES:
            return MOST_LANES
        self[key] = number
        return number


class Spans:
    """Columns of one length: a span's lane, start, length, and a reference to more.

    ``left_out`` is how many there were over ``MOST_SPANS``.
    """

    def __init__(self) -> None:
        self.lanes = LaneNumbers()
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
