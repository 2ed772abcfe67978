"""Read a run's growing files in an order that leaves every copy a whole one.

A line of events comes after the output that it speaks of, so that what a follower has
is, wherever the stream breaks, what the run's folder was like at some time.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from runner.core import Stream
from runner.server.bounds import STEP_BYTES
from runner.wire.frames import FILES, FilePart, to_line

EVENTS, STDOUT, STDERR = FILES
_LOGS = {Stream.STDOUT: STDOUT, Stream.STDERR: STDERR}


class Position(Struct, frozen=True):
    """How much of each file a follower has, in bytes."""

    events: int = 0
    stdout: int = 0
    stderr: int = 0

    def of(self, file: str) -> int:
        """Return how much it has of one file."""
        if file == EVENTS:
            return self.events
        return self.stdout if file == STDOUT else self.stderr


class TailStep(Struct, frozen=True):
    """The next frames for a follower, and where it is after them."""

    frames: bytes
    after: Position


Read = Callable[[str, int, int], bytes]
"""It returns at most so many bytes of a file from an offset on."""


class _Line(Struct):
    """What of a line of events tells which output it speaks of."""

    event: str
    stream: Stream | None = None
    offset: int = 0
    length: int = 0


_decoder = json.Decoder(_Line)


def next_step(
    read: Read, sizes: dict[str, int], at: Position, *, over: bool
) -> TailStep | None:
    """Return what a follower gets next; None if there is nothing new for it.

    ``sizes`` are how much of each file counts; of the events these are whole lines,
    unless the run is ``over``: then all that is left is sent.
    """
    room = min(sizes[EVENTS] - at.events, STEP_BYTES)
    lines = read(EVENTS, at.events, room) if room > 0 else b""
    if not lines:
        ends = {name: sizes[name] for name in (STDOUT, STDERR)}
        return _step(read, at, ends, b"") if over else None
    # A line that is longer than what is read goes in pieces: it is of no output.
    lines = lines[: lines.rfind(b"\n") + 1] or lines
    ends, taken = _named(lines, at, sizes, over)
    return _step(read, at, ends, lines[:taken])


def whole_lines(read: Read, begin: int, end: int) -> int:
    """Return where the last line ends that ends between two places."""
    while end > begin:
        start = max(begin, end - STEP_BYTES)
        found = read(EVENTS, start, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return begin


def _named(
    lines: bytes, at: Position, sizes: dict[str, int], over: bool
) -> tuple[dict[str, int], int]:
    """Return how far the output goes that lines speak of, and how many bytes of them.

    Lines whose output is not there yet wait, and so do those that would make the step
    too large; of output that is too large alone a piece is sent before its line.
    """
    ends = {STDOUT: at.stdout, STDERR: at.stderr}
    left, taken = STEP_BYTES, 0
    while taken < len(lines):
        cut = lines.find(b"\n", taken) + 1 or len(lines)
        file, end = _output(lines[taken:cut])
        if file:
            if end > sizes[file]:
                if not over:
                    break
                end = sizes[file]
            more = end - ends[file]
            if more > left:
                if not taken:
                    ends[file] += left
                break
            if more > 0:
                ends[file], left = end, left - more
        taken = cut
    return ends, taken


def _output(line: bytes) -> tuple[str, int]:
    """Return the file that a line speaks of and the end of that output; "" for none."""
    if b'"Output"' not in line:
        return "", 0
    try:
        found = _decoder.decode(line)
    except (DecodeError, ValidationError):
        return "", 0
    if found.event != "Output" or found.stream is None:
        return "", 0
    return _LOGS[found.stream], found.offset + found.length


def _step(
    read: Read, at: Position, ends: dict[str, int], lines: bytes
) -> TailStep | None:
    frames, after = bytearray(), at
    for file in (STDOUT, STDERR):
        begin = at.of(file)
        size = min(ends[file] - begin, STEP_BYTES)
        data = read(file, begin, size) if size > 0 else b""
        if data:
            frames += to_line(FilePart(file, begin, len(data))) + data
            end = begin + len(data)
            after = (
                replace(after, stdout=end)
                if file == STDOUT
                else replace(after, stderr=end)
            )
        if begin + len(data) < ends[file] and lines:
            lines = b""  # it was cut since: its lines wait
    if lines:
        frames += to_line(FilePart(EVENTS, at.events, len(lines))) + lines
        after = replace(after, events=at.events + len(lines))
    return TailStep(bytes(frames), after) if frames else None


def reader(handles: dict[str, int]) -> Read:
    """Return what reads files by their descriptors; an absent one is empty."""

    def read(file: str, at: int, size: int) -> bytes:
        handle = handles.get(file)
        if handle is None:
            return b""
        parts = []
        while size > 0 and (part := os.pread(handle, size, at)):
            parts.append(part)
            at, size = at + len(part), size - len(part)
        return b"".join(parts)

    return read
