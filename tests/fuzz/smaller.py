"""Fewer inputs: those that reach something new.

libFuzzer's own way needs a program that it can start again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType

One = Callable[[bytes], None]
Line = tuple[str, int]

MOST_BYTES = 1024
"""Larger inputs are not kept."""


def chosen(one: One, kept: Iterable[bytes], tried: Iterable[bytes]) -> list[bytes]:
    """Return the inputs that reach lines which none before them reached."""
    known: set[Line] = set()
    for data in kept:
        known |= reached(one, data)
    more = []
    for data in sorted(tried, key=len):
        if len(data) <= MOST_BYTES and (new := reached(one, data) - known):
            known |= new
            more.append(data)
    return more


def reached(one: One, data: bytes) -> set[Line]:
    """Return the lines of runner/ that an input leads through."""
    lines: set[Line] = set()

    def trace(frame: FrameType, event: str, _: object) -> object:
        name = frame.f_code.co_filename
        if "/runner/" not in name:
            return None
        if event == "line":
            lines.add((name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        one(data)
    finally:
        sys.settrace(before)
    return lines
