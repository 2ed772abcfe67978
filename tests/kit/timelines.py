"""Timelines for tests, and what their packing says."""

from __future__ import annotations

import base64
import gzip
import json
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from runner.core.evidence import Lane, LaneKind, Timeline

GPU = Lane("m3.1.py (14)", "GPU 0, stream 7", LaneKind.GPU)
RANGES = Lane("m3.1.py (14)", "ranges of thread 14", LaneKind.RANGE)
CALLS = Lane("m3.1.py (14)", "thread 14", LaneKind.API)


class Span(NamedTuple):
    lane: int
    start: int
    length: int
    name: int = 0
    facts: int = 0
    link: int = 0
    merged: int = 1


def timeline(
    spans: Iterable[Span],
    names: Sequence[str] = ("kernel",),
    lanes: Sequence[Lane] = (GPU, RANGES, CALLS),
    notes: Sequence[tuple[tuple[str, str], ...]] = ((),),
    left_out: int = 0,
) -> Timeline:
    """Return spans as columns, in order."""
    ordered = sorted(spans, key=lambda span: (span.lane, span.start, -span.length))
    made = Timeline(list(names), list(lanes), list(notes), left_out=left_out)
    for span in ordered:
        for name, value in zip(Span._fields, span, strict=True):
            getattr(made, name).append(value)
    return made


def unpacked(text: str) -> Timeline:
    """Return the timeline that a page carries, decoded as its script does it."""
    data = gzip.decompress(base64.b64decode(text, validate=True))
    size = int.from_bytes(data[:4], "little")
    header = json.loads(data[4 : 4 + size])
    count, at = header["count"], 4 + size
    columns: dict[str, list[int]] = {}
    for name, width in header["columns"]:
        column = [0] * count
        for place in range(width):
            for i, byte in enumerate(data[at : at + count]):
                column[i] += byte << 8 * place
            at += count
        columns[name] = column
    assert at == len(data)
    lanes = [
        Lane(lane["process"], lane["title"], LaneKind(lane["kind"]))
        for lane in header["lanes"]
    ]
    notes = [tuple(map(tuple, note)) for note in header["notes"]]
    made = Timeline(header["names"], lanes, notes, left_out=header["leftOut"])
    for lane, size in enumerate(each["size"] for each in header["lanes"]):
        made.lane.extend([lane] * size)
        first = len(made.start)
        for step in columns["start"][first : first + size]:
            made.start.append(step + (made.start[-1] if len(made.start) > first else 0))
    made.link = array("q", columns["link"])
    made.length = array("q", columns["length"])
    made.name = array("I", columns["name"])
    made.facts = array("I", columns["facts"])
    made.merged = array("I", columns["merged"])
    return made
