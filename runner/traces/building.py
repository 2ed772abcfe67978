"""A timeline of the spans that were chosen, with names and facts of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from runner.core.trace import Lane, LaneKind, Timeline
from runner.traces.merging import Pick, picked
from runner.traces.spans import MOST_LANES, Spans

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
    """Numbers values in the order in which they first come."""

    def __missing__(self, key: Any) -> int:  # noqa: ANN401 - any value
        self[key] = len(self)
        return self[key]


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
    names, notes = Interned(), Interned({(): 0})
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
        _append(found, pick, places[pick.lane], begin)
        found.name.append(names[known.name])
        found.facts.append(notes[known.facts])
        links.append(known.link)
    found.link.extend(_joined(links))
    found.names.extend(names)
    found.notes.extend(notes)
    found.left_out = len(spans) + spans.left_out - len(picks)
    return found


def _append(found: Timeline, pick: Pick, lane: int, begin: int) -> None:
    found.lane.append(lane)
    found.start.append(pick.start - begin)
    found.length.append(pick.length)
    found.merged.append(pick.merged)


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
    places = [0] * len(lanes)
    for place, number in enumerate(order):
        places[number] = place
    calls = {(one.process, one.title) for one in lanes if one.kind is LaneKind.API}
    ordered = [_told_apart(lanes[number], calls) for number in order]
    if MOST_LANES in spans.lane:
        places.append(len(ordered))
        ordered.append(_MANY)
    return places, ordered


def _told_apart(lane: Lane, calls: set[tuple[str, str]]) -> Lane:
    """Return a lane; ranges of a thread that has calls are called so."""
    if lane.kind is LaneKind.RANGE and (lane.process, lane.title) in calls:
        return replace(lane, title=f"ranges of {lane.title}")
    return lane


def _joined(links: list[Hashable]) -> list[int]:
    """Return a number for each link that joins at least two spans, 0 for the others."""
    together = Counter(link for link in links if link is not None)
    numbers = Interned()
    return [
        1 + numbers[link] if link is not None and together[link] > 1 else 0
        for link in links
    ]
