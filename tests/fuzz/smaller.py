"""Fewer and smaller inputs: those that reach something new, and the core of a failure.

libFuzzer's own ways need a program that it can start again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType

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


def shrunk(one: One, data: bytes) -> bytes:
    """Return a smaller input that fails in the same place."""
    failure = _failure(one, data)
    size = max(len(data) // 2, 1)
    while size and failure:
        at, before = 0, len(data)
        while at < len(data):
            less = data[:at] + data[at + size :]
            if _failure(one, less) == failure:
                data = less
            else:
                at += size
        if size == 1 and len(data) == before:
            break
        size = max(size // 2, 1)
    return data


def _failure(one: One, data: bytes) -> tuple[object, ...] | None:
    """Return where and how an input fails."""
    try:
        one(data)
    except Exception as error:
        return type(error), _last(error.__traceback__)
    return None


def _last(trace: TracebackType | None) -> int:
    line = 0
    while trace:
        line, trace = trace.tb_lineno, trace.tb_next
    return line
