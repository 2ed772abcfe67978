"""Trace events out of a JSON file, piece by piece.

A piece ends between two events. That it does is certain once what was read so far of
the piece, closed by a bracket, is valid JSON: within a string or a nested value it
cannot be. So a piece is a few megabytes, however large the file, and what is not an
event costs as little as possible.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import msgspec
from msgspec import Struct, field

from runner.traces.inflated import Inflated

PIECE_BYTES = 1 << 20
LONGEST_PIECE_BYTES = 1 << 24
"""An event that is longer ends the reading."""

MOST_BYTES = 1 << 31
"""Of the file, decompressed."""

_TRIES = 4
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb"\s*,\s*\{")
_CLOSED = re.compile(r"trailing characters \(byte (\d+)\)")
"""What msgspec says of data after a value; bytes count from 1."""


_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)

Number = int | float | str | None


class EventArgs(Struct, gc=False):
    """What is used of an event's arguments."""

    name: str | None = None
    correlation: int | str | None = None
    device: int | None = None
    context: int | None = None
    stream: int | str | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    bytes: int | None = None
    registers: int | None = field(default=None, name="registers per thread")
    static_shared: int | None = field(default=None, name="static shared memory")
    dynamic_shared: int | None = field(default=None, name="dynamic shared memory")
    shared: int | None = field(default=None, name="shared memory")


class PlainEvent(Struct, gc=False):
    """An event without its arguments, which may have other types than expected.

    ``ph`` is its phase, times are in microseconds.
    """

    ph: str = ""
    cat: str | None = None
    name: str | None = None
    ts: Number = None
    dur: Number = None
    pid: Number = None
    tid: Number = None


class TraceEvent(PlainEvent, gc=False):
    """A whole event."""

    id: Number = None
    args: EventArgs | None = None


class DeviceProperties(Struct):
    """A GPU, as PyTorch's profiler describes it."""

    id: int = 0
    name: str = ""
    major: int | None = field(default=None, name="computeMajor")
    minor: int | None = field(default=None, name="computeMinor")
    multiprocessors: int | None = field(default=None, name="numSms")


class EventHead(Struct):
    """What stands before the events."""

    devices: list[DeviceProperties] = field(
        default_factory=list, name="deviceProperties"
    )


class NoEvents(Exception):
    """The file has no trace events; the message says what is wrong."""


_events = msgspec.json.Decoder(list[TraceEvent])
_raw_events = msgspec.json.Decoder(list[msgspec.Raw])
_one = msgspec.json.Decoder(TraceEvent)
_plain = msgspec.json.Decoder(PlainEvent)
_lenient = json.JSONDecoder(parse_constant=lambda _: None)


class EventStream:
    """The events of a file, and what of it could not be read."""

    def __init__(self, file: BufferedReader) -> None:
        start = file.peek(2)[:2]
        self._file = Inflated(file) if start == b"\x1f\x8b" else file
        self.problems: list[str] = []
        self._left = MOST_BYTES
        self._ended = False
        self._odd = 0
        self._pending = b""
        self.head = self._begin()

    def _read(self) -> bytes:
        """Return more of the file, b"" at its end."""
        if self._ended:
            return b""
        try:
            data = self._file.read(min(PIECE_BYTES, self._left))
        except (OSError, EOFError, zlib.error) as error:
            self.problems.append(f"it cannot be decompressed to its end: {error}")
            data = b""
        self._left -= len(data)
        if not self._left:
            self.problems.append(f"only its first {MOST_BYTES >> 30} GiB were read")
        self._ended = not data or not self._left
        return data

    def _begin(self) -> EventHead:
        """Read up to the first event."""
        data = self._read().removeprefix(b"\xef\xbb\xbf")
        if data.lstrip().startswith(b"["):
            self._pending = data.lstrip()[1:]
            return EventHead()
        while True:
            for found in _EVENTS.finditer(data):
                try:
                    head = data[: found.start()] + b'"traceEvents":[]}'
                    known = msgspec.json.decode(head)
                except _FAILURES:
                    continue  # it is within a string or a nested value
                self._pending = data[found.end() :]
                return _head(known)
            more = self._read() if len(data) < LONGEST_PIECE_BYTES else b""
            if not more:
                raise NoEvents("it is JSON without trace events")
            data += more

    def pieces(self) -> Iterator[list[TraceEvent]]:
        """Yield all events, many at once."""
        data: bytes | None = self._pending
        while data is not None:
            data += self._read()
            found, rest = self._whole(data)
            if found:
                yield found
            elif rest is not None and self._ended:
                if rest.strip(b"] \t\r\n,"):
                    self.problems.append("it ends within an event")
                break
            elif rest is not None and len(rest) > LONGEST_PIECE_BYTES:
                self.problems.append("an event is too long, or is no JSON")
                break
            data = rest
        if self._odd:
            self.problems.append(f"{self._odd:,} of its events are no trace events")

    def _whole(self, data: bytes) -> tuple[list[TraceEvent], bytes | None]:
        """Return the whole events at the start of data, and what follows them.

        None follows if the array of events ends here.
        """
        end = len(data)
        for _ in range(_TRIES):
            end = _boundary(data, end)
            if end < 0:
                break
            piece = b"[" + data[:end] + b"]"
            try:
                return self._decoded(piece), _after(data, end)
            except _FAILURES as error:
                if closed := _CLOSED.search(str(error)):
                    return self._decoded(piece[: int(closed[1]) - 1]), None
        return self._last(data) if self._ended else ([], data)

    def _last(self, data: bytes) -> tuple[list[TraceEvent], bytes | None]:
        """Return the events at the end of the file."""
        for piece in (b"[" + data, b"[" + data.rstrip(b", \t\r\n") + b"]"):
            try:
                return self._decoded(piece), None
            except _FAILURES as error:
                if closed := _CLOSED.search(str(error)):
                    return self._decoded(piece[: int(closed[1]) - 1]), None
        return [], data

    def _decoded(self, piece: bytes) -> list[TraceEvent]:
        """Decode an array of events; those of other types are counted as odd."""
        try:
            try:
                return _events.decode(piece)
            except msgspec.ValidationError:
                raw = _raw_events.decode(piece)
        except msgspec.DecodeError as error:
            if "invalid character" not in str(error):
                raise
            raw = _not_finite(piece)
        return [each for event in raw for each in self._lax(event)]

    def _lax(self, raw: msgspec.Raw) -> list[TraceEvent]:
        try:
            return [_one.decode(raw)]
        except _FAILURES:
            pass
        try:
            plain = _plain.decode(raw)
        except _FAILURES:
            self._odd += 1
            return []
        return [TraceEvent(*msgspec.structs.astuple(plain))]


def _not_finite(piece: bytes) -> list[msgspec.Raw]:
    """Decode events with NaN or Infinity, which are no JSON but are written."""
    text = piece.decode()
    found, end = _lenient.raw_decode(text)
    if text[end:].strip():
        at = 1 + len(piece) - len(text[end:].lstrip().encode())
        raise ValueError(f"trailing characters (byte {at})")
    return [msgspec.Raw(msgspec.json.encode(event)) for event in found]


def _head(known: Any) -> EventHead:  # noqa: ANN401 - JSON
    try:
        return msgspec.convert(known, EventHead)
    except msgspec.ValidationError:
        return EventHead()


def _boundary(data: bytes, before: int) -> int:
    """Return the end of the last value before a place that an object follows, or -1."""
    for _ in range(10_000):
        before = data.rfind(b"}", 0, before)
        if before < 0:
            return -1
        if _BETWEEN.match(data, before + 1):
            return before + 1
    return -1


def _after(data: bytes, end: int) -> bytes:
    """Return what follows the comma after a value."""
    return data[data.index(b",", end) + 1 :]
