"""A timeline that can be zoomed and searched: part of a page, or a page of its own.

``packed`` turns the spans into text; the scripts in ``assets/timeline`` unpack and draw
it. The text is gzip in base64. Inside are the length of a header in four bytes, the
header as JSON (names, lanes, notes, and how wide each column is), and the columns. A
column is stored as planes, the lowest byte of each of its numbers first, since that
compresses well. A page is read with nothing but what browsers have, so no other packing
is used.
"""

from __future__ import annotations

import base64
import gzip
import json
import operator
from array import array
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from runner.core.quantities import brief
from runner.core.screen import printable
from runner.core.trace import Timeline
from runner.pages import shell

MOST_TEXT = 1_000
"""No name and no value of a note is longer, in characters."""

MOST_NAMES, MOST_NOTES = 1_000_000, 4_000_000
"""Where all names, or all notes, are longer together, each is cut to its share."""

LATEST = 1 << 52
"""Times beyond are cut to it: a browser counts in numbers of 53 bits."""

_LEVEL = 6
_SHORTEST = 24
_TITLE = 200
_HELP = (
    ("wheel, + −", "zoom"),
    ("drag, ← →, Shift and wheel", "pan"),
    ("wheel over the names, ↑ ↓", "scroll the lanes"),
    ("Shift and drag", "zoom to a range"),
    ("click, tap", "select a span"),
    ("double click, F", "zoom to a span"),
    ("Enter, with Shift back", "the next span"),
    ("L", "what it launched, or what launched it"),
    ("/, then N and Shift N", "search, next and previous match"),
    ("Home", "the whole"),
    ("Escape", "select nothing"),
)


def element(title: str, timeline: Timeline, alone: bool = False) -> Markup:
    """Return a timeline as a part of a page; ``alone`` if it is all of the page.

    Alone it fills the window, and the wheel zooms it at once. It needs ``assets``.
    """
    return shell.render(
        "timeline.html",
        title=cut(title, _TITLE),
        summary=summary(timeline),
        help=_HELP,
        packed=packed(timeline),
        alone=alone,
    )


def summary(timeline: Timeline) -> str:
    """Describe in a few words how much there is."""
    spans, lanes = len(timeline.start), len(set(timeline.lane))
    text = f"{spans:,} span{'s' * (spans != 1)} in {lanes:,} lane{'s' * (lanes != 1)}"
    if spans:
        end = max(map(sum, zip(timeline.start, timeline.length, strict=True)))
        text += f" over {brief((end - min(timeline.start)) / 1e9)}"
    if timeline.left_out:
        text += (
            f"; {timeline.left_out:,} more, too close together to be kept apart, were"
            " merged into these and count under the longest one's name, so that counts"
            " and sums by name are approximate (≈)"
        )
    return text


def page(title: str, timeline: Timeline) -> str:
    """Return a page of one timeline."""
    style, script = assets()
    made = element(title, timeline, alone=True)
    styles = [style, shell.asset("timeline_page.css")]
    return shell.page(cut(title, _TITLE), made, styles, [script])


def assets() -> tuple[str, str]:
    """Return the style that timelines need, and the script that draws all of a page."""
    parts = sorted((shell.ASSETS / "timeline").glob("*.js"))
    body = "\n".join(part.read_text("utf-8") for part in parts)
    return shell.asset("timeline.css"), f'(() => {{\n"use strict";\n{body}}})();\n'


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


def _lanes(timeline: Timeline) -> list[dict[str, object]]:
    processes = _cut([lane.process for lane in timeline.lanes])
    titles = _cut([lane.title for lane in timeline.lanes])
    rows = zip(timeline.lanes, processes, titles, _sizes(timeline), strict=True)
    return [
        {"process": process, "title": title, "kind": lane.kind, "size": size}
        for lane, process, title, size in rows
    ]


def _notes(
    notes: Sequence[tuple[tuple[str, str], ...]],
) -> list[list[tuple[str, str]]]:
    every = [text for note in notes for pair in note for text in pair]
    texts = iter(_cut(every, MOST_NOTES))
    return [[(next(texts), next(texts)) for _ in note] for note in notes]


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
    """Return the links numbered anew from 1; 0 is for none, and for a span alone."""
    counts, numbers = Counter(column), dict[int, int]()
    for link in column:
        if link and counts[link] > 1:
            numbers.setdefault(link, len(numbers) + 1)
    return array("Q", (numbers.get(link, 0) for link in column))


def _planes(column: array[int]) -> list[bytes]:
    if column and min(column) < 0:
        raise ValueError("the spans are not sorted by lane, then by start")
    largest = max(column, default=0)
    data, width = column.tobytes(), column.itemsize
    used = (largest.bit_length() + 7) // 8
    return [data[place::width] for place in range(used)]
