"""Packing a timeline into text for a page, which its script unpacks.

The text is gzip in base64. Inside are the length of a header in four bytes, the header
as JSON (names, lanes, notes, and how wide each column is), and the columns. A column is
stored as planes, the lowest byte of each of its numbers first, since that compresses
well. A page is read with nothing but what browsers have, so no other packing is used.
"""

from __future__ import annotations

import base64
import gzip
import json
import operator
import sys
from array import array
from collections.abc import Iterable, Sequence

from runner.core.screen import printable
from runner.core.trace import Timeline

MOST_TEXT = 1_000
"""No name and no value of a note is longer, in characters."""

MOST_NAMES, MOST_NOTES = 1_000_000, 4_000_000
"""Where all names, or all notes, are longer together, each is cut to its share."""

LATEST = 1 << 52
"""Times beyond are cut to it: a browser counts in numbers of 53 bits."""

_LEVEL = 6
_SHORTEST = 24


def packed(timeline: Timeline) -> str:
    """Return a timeline as text of A-Z, a-z, 0-9, +, / and =."""
    columns = (
        ("start", _steps(timeline)),
        ("length", _bounded(timeline.length)),
        ("name", timeline.name),
        ("facts", timeline.facts),
        ("link", _links(timeline.link)),
        ("merged", timeline.merged),
    )
    planes = [(name, _planes(column)) for name, column in columns]
    header = {
        "count": len(timeline.start),
        "columns": [[name, len(found)] for name, found in planes],
        "names": _cut(timeline.names),
        "lanes": _lanes(timeline),
        "notes": _notes(timeline.notes),
        "leftOut": timeline.left_out,
    }
    head = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join(plane for _, found in planes for plane in found)
    data = len(head).to_bytes(4, "little") + head + body
    return base64.b64encode(gzip.compress(data, _LEVEL, mtime=0)).decode()


def cut(text: str, most: int = MOST_TEXT) -> str:
    """Return a text of a trace as it is shown: cut, and its controls escaped."""
    shown = printable(text[:most])
    return shown[: most - 1] + "…" if max(len(text), len(shown)) > most else shown


def _cut(texts: Sequence[str], together: int = MOST_NAMES) -> list[str]:
    most = MOST_TEXT
    if sum(min(len(text), MOST_TEXT) for text in texts) > together:
        most = max(together // len(texts), _SHORTEST)
    return [cut(text, most) for text in texts]


def _lanes(timeline: Timeline) -> list[tuple[str, str, str, int]]:
    processes = _cut([lane.process for lane in timeline.lanes])
    titles = _cut([lane.title for lane in timeline.lanes])
    kinds = [lane.kind.value for lane in timeline.lanes]
    return list(zip(processes, titles, kinds, _sizes(timeline), strict=True))


def _notes(notes: Sequence[tuple[tuple[str, str], ...]]) -> list[list[str]]:
    """Return each note as one list: a name, its value, the next name, and so on."""
    every = [text for note in notes for pair in note for text in pair]
    texts = iter(_cut(every, MOST_NOTES))
    return [[next(texts) for pair in note for _ in pair] for note in notes]


def _sizes(timeline: Timeline) -> list[int]:
    """Return how many spans each lane has."""
    sizes = [0] * len(timeline.lanes)
    for lane in timeline.lane:
        sizes[lane] += 1
    return sizes


def _bounded(column: array[int]) -> array[int]:
    if len(column) and (min(column) < 0 or max(column) > LATEST):
        return array("q", (min(max(value, 0), LATEST) for value in column))
    return column


def _steps(timeline: Timeline) -> array[int]:
    """Return how much later each span starts than the one before it in its lane."""
    start = _bounded(timeline.start)
    steps = array("q", map(operator.sub, start, array("q", [0]) + start[:-1]))
    at = 0
    for size in _sizes(timeline):
        if size:
            steps[at] = start[at]
        at += size
    return steps


def _links(column: array[int]) -> array[int]:
    """Return the links numbered anew, by how they differ from the one before.

    0 stands for no link, and for one that no other span has. The others are 1 and the
    difference from the number that is expected next, which is even if it is above.
    """
    shared = _shared(column)
    numbers: dict[int, int] = {}
    coded = array("Q", bytes(8 * len(column)))
    expected = 1
    for at, link in enumerate(column):
        if link in shared:
            number = numbers.setdefault(link, len(numbers) + 1)
            off = number - expected
            coded[at] = 1 + (2 * off if off >= 0 else -2 * off - 1)
            expected = number + 1
    return coded


def _shared(column: Iterable[int]) -> set[int]:
    seen: set[int] = set()
    # set.add returns None, so that this keeps what is seen a second time.
    again = {link for link in column if link in seen or seen.add(link)}  # type: ignore[func-returns-value]
    return again - {0}


def _planes(column: array[int]) -> list[bytes]:
    if column and min(column) < 0:
        raise ValueError("the spans are not sorted by lane, then by start")
    largest = max(column, default=0)
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    data, width = column.tobytes(), column.itemsize
    used = (largest.bit_length() + 7) // 8
    return [data[place::width] for place in range(used)]
