"""What a timeline says in words: totals by name, for those who do not see it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from runner.core.trace import LaneKind, Timeline
from runner.pages.timeline.packing import cut
from runner.report.words import brief

MOST_ROWS = 20

_TITLES = {
    LaneKind.GPU: "GPU activities",
    LaneKind.API: "API calls",
    LaneKind.RANGE: "Ranges",
}


class TotalRow(Struct, frozen=True):
    """All spans of one name."""

    share: str
    total: str
    calls: str
    average: str
    name: str


class TotalSection(Struct, frozen=True):
    """The names of one kind of lane that took the most time."""

    title: str
    rows: tuple[TotalRow, ...]


def sections(timeline: Timeline) -> list[TotalSection]:
    """Return the totals of each kind of lane that has spans."""
    sums = _sums(timeline)
    return [
        TotalSection(title, tuple(_rows(timeline.names, sums[kind])))
        for kind, title in _TITLES.items()
        if kind in sums
    ]


def summary(timeline: Timeline) -> str:
    """Describe in a few words how much there is."""
    spans = len(timeline.start)
    lanes = len(set(timeline.lane))
    text = f"{spans:,} span{'s' * (spans != 1)} in {lanes:,} lane{'s' * (lanes != 1)}"
    if spans:
        end = max(map(sum, zip(timeline.start, timeline.length, strict=True)))
        text += f" over {_time(end - min(timeline.start))}"
    if timeline.left_out:
        text += (
            f"; {timeline.left_out:,} more, too close together to be kept apart, were"
            " merged into these and count under the longest one's name"
        )
    return text


def _sums(timeline: Timeline) -> dict[LaneKind, dict[int, tuple[int, int]]]:
    """Return the number of calls and the time by kind of lane and by name."""
    found: dict[LaneKind, dict[int, tuple[int, int]]] = {}
    kinds = [lane.kind for lane in timeline.lanes]
    columns = (timeline.lane, timeline.name, timeline.length, timeline.merged)
    for lane, name, length, merged in zip(*columns, strict=True):
        sums = found.setdefault(kinds[lane], {})
        calls, total = sums.get(name, (0, 0))
        sums[name] = calls + max(merged, 1), total + length
    return found


def _rows(names: list[str], sums: dict[int, tuple[int, int]]) -> Iterable[TotalRow]:
    ordered = sorted(sums.items(), key=lambda item: -item[1][1])
    whole = sum(total for _, total in sums.values()) or 1
    for name, (calls, total) in ordered[:MOST_ROWS]:
        yield _row(cut(names[name]), calls, total, whole)
    if rest := ordered[MOST_ROWS:]:
        calls = sum(calls for _, (calls, _) in rest)
        total = sum(total for _, (_, total) in rest)
        yield _row(f"and {len(rest):,} more", calls, total, whole)


def _row(name: str, calls: int, total: int, whole: int) -> TotalRow:
    share = f"{100 * total / whole:.2f}%"
    return TotalRow(share, _time(total), f"{calls:,}", _time(total / calls), name)


def _time(nanoseconds: float) -> str:
    return brief(nanoseconds / 1e9).replace(" us", " µs")
