"""Trace events in JSON, as PyTorch's profiler, nvprof and Chrome write them."""

from __future__ import annotations

import gzip
import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Hashable, Iterator
from io import BufferedReader
from typing import Any

import msgspec
from msgspec import Struct, field

from runner.core.evidence import Lane, LaneKind, Trace, TracedGpu
from runner.figures.traces import spans as building
from runner.figures.traces.spans import MOST_NS, Description, Interned, LaneKey, Spans
from runner.figures.traces.sums import (
    LONGEST_TITLE,
    Facts,
    LaunchShape,
    Sums,
    bounded,
    gpu,
    spelled,
    whole,
)

WANTED = "give an SQLite file of nvprof -o or of nsys export, or trace events in JSON"
"""What to do about a file that is none of these."""

MOST_BYTES = 256 << 20
"""Of the file, decompressed."""

MOST_VALUES = 20_000_000
"""Commas, so that a file of many tiny values does not fill the memory."""

_AGAIN = "profile again"
_LESS = "profile fewer steps, or write SQLite: nvprof -o FILE"
_START = re.compile(rb"(?:\xef\xbb\xbf)?\s*")
_NO_NUMBER = re.compile(rb"([:\[,]\s*)-?(?:nan|inf(?:inity)?)(?=\s*[,\]}])", re.I)
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)

_KINDS = {
    "kernel": LaneKind.GPU,
    "memcpy": LaneKind.GPU,
    "memset": LaneKind.GPU,
    "gpu_memcpy": LaneKind.GPU,
    "gpu_memset": LaneKind.GPU,
    "api": LaneKind.API,
    "cuda_runtime": LaneKind.API,
    "cuda_driver": LaneKind.API,
}
"""Kinds of spans by category, of nvprof's and of PyTorch's traces."""

_GPU_PID = 1 << 22
"""nvprof's trace numbers GPUs as processes from here."""

_GREATEST_LINK = 1 << 62
_MOST_US = MOST_NS / 1000
_LATEST_US = float(1 << 51)

Number = int | float | str | None


class EventArgs(Struct, gc=False):
    """What is used of an event's arguments."""

    name: str | None = None
    correlation: int | str | None = None
    device: int | None = None
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

    args: EventArgs | None = None


class _Device(Struct):
    """A GPU, as PyTorch's profiler describes it."""

    id: int = 0
    name: str = ""
    major: int | None = field(default=None, name="computeMajor")
    minor: int | None = field(default=None, name="computeMinor")
    multiprocessors: int | None = field(default=None, name="numSms")


class _Document(Struct):
    """A file of trace events, which are decoded one by one."""

    traceEvents: list[msgspec.Raw]
    deviceProperties: msgspec.Raw = msgspec.Raw(b"[]")


_document = msgspec.json.Decoder(_Document | list[msgspec.Raw])
_event = msgspec.json.Decoder(TraceEvent)
_plain_event = msgspec.json.Decoder(PlainEvent)
_devices = msgspec.json.Decoder(list[_Device])


class NoTrace(Exception):
    """The file cannot be used; the arguments say what is wrong, and what to do."""


def _read(file: BufferedReader) -> bytes:
    """Return the JSON of a file; raise NoTrace if it is damaged or too large."""
    packed = file.peek(2)[:2] == b"\x1f\x8b"
    try:
        # gzip's own file closes nothing that it did not open.
        source = gzip.GzipFile(fileobj=file) if packed else file
        data = source.read(MOST_BYTES + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise NoTrace(f"it cannot be decompressed: {error}", _AGAIN) from error
    if len(data) > MOST_BYTES:
        raise NoTrace(f"its JSON is larger than {MOST_BYTES >> 20} MiB", _LESS)
    if data.count(b",") > MOST_VALUES:
        raise NoTrace(f"it has over {MOST_VALUES:,} values", _LESS)
    return data[start.end() :] if (start := _START.match(data)) else data


def _decoded(data: bytes) -> _Document:
    """Decode JSON of either form; Chrome's array may lack its last bracket."""
    try:
        try:
            found = _document.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            data = _NO_NUMBER.sub(rb"\1null", data).rstrip(b", \t\r\n")
            if data.startswith(b"[") and not data.endswith(b"]"):
                data += b"]"
            found = _document.decode(data)
    except msgspec.ValidationError as error:
        raise NoTrace("it is JSON without trace events", WANTED) from error
    except _FAILURES as error:
        raise NoTrace(f"it is damaged: {error}", _AGAIN) from error
    return found if isinstance(found, _Document) else _Document(found)


class EventTrace:
    """All spans of a file, as columns, with the numbers of what they share."""

    def __init__(self, file: BufferedReader) -> None:
        document = _decoded(_read(file))
        self._spans = Spans()
        self._group = array("I")
        self._link = array("q")
        self._groups = Interned()
        self._figures: list[list[int]] = []
        self._named: list[_Group] | None = None
        self._known: dict[tuple[str, Hashable], str] = {}
        self._streams: dict[LaneKey, str] = {}
        self._open: dict[LaneKey, list[tuple[int, TraceEvent]]] = defaultdict(list)
        self._wrong_times = self._unmatched = self._odd = 0
        try:
            self._devices = _devices.decode(document.deviceProperties)
        except _FAILURES:
            self._devices = []
        for raw in document.traceEvents:
            self._take(raw)
        self._unmatched += sum(map(len, self._open.values()))
        counted = (
            (self._odd, "of its events are no trace events"),
            (self._wrong_times, "spans with impossible times are left out"),
            (self._unmatched, "spans begin or end only, and are left out"),
            (self._spans.left_out, f"spans over {building.MOST_SPANS:,} are left out"),
        )
        self.problems = [f"{count:,} {words}" for count, words in counted if count]

    def _take(self, raw: msgspec.Raw) -> None:
        try:
            event = _event.decode(raw)
        except _FAILURES:
            try:
                plain = _plain_event.decode(raw)
            except _FAILURES:
                self._odd += 1
                return
            event = TraceEvent(*msgspec.structs.astuple(plain))
        if event.ph == "X":
            start = _nanoseconds(event.ts, _LATEST_US)
            self._add(event, start, _nanoseconds(event.dur or 0, _MOST_US))
        elif event.ph == "M":
            self._name(event)
        elif event.ph == "B":
            begun = _nanoseconds(event.ts, _LATEST_US)
            if begun is None:
                self._wrong_times += 1
            else:
                self._open[event.pid, event.tid].append((begun, event))
        elif event.ph == "E":
            self._end(event)

    def _end(self, event: TraceEvent) -> None:
        ended = _nanoseconds(event.ts, _LATEST_US)
        begun = self._open.get((event.pid, event.tid))
        if not begun or ended is None:
            self._unmatched += 1
            return
        start, opened = begun.pop()
        length = ended - start
        self._add(opened, start, length if 0 <= length <= MOST_NS else None)

    def _name(self, event: TraceEvent) -> None:
        if event.args is None or (name := event.args.name) is None:
            return
        of_thread = event.name == "thread_name"
        where: Hashable = (event.pid, event.tid) if of_thread else event.pid
        self._known[event.name or "", where] = bounded(name, LONGEST_TITLE).strip()

    def _add(self, event: TraceEvent, start: int | None, length: int | None) -> None:
        spans = self._spans
        if start is None or length is None:
            self._wrong_times += 1
            return
        place = len(self._link)
        if place >= building.MOST_SPANS:
            spans.left_out += 1
            return
        kind = _KINDS.get(event.cat or "", LaneKind.RANGE)
        lane: LaneKey = (kind, event.pid, event.tid)
        detail: _Detail = None
        link: int | str | None = None
        if (args := event.args) is not None:
            link = args.correlation
            if kind is LaneKind.GPU:
                detail = _detail(args, event.pid)
                if lane not in self._streams:
                    self._streams[lane] = _stream_title(args)
        spans.ref.append(place)
        spans.lane.append(spans.lanes[lane])
        spans.start.append(start)
        spans.length.append(length)
        group = self._groups[kind, event.name or "(no name)", detail]
        self._group.append(group)
        if group == len(self._figures):
            self._figures.append([1, length, length, length, start])
        else:
            have = self._figures[group]
            have[0] += 1
            have[1] += length
            if length < have[2]:
                have[2] = length
            if length > have[3]:
                have[3] = length
            if start < have[4]:
                have[4] = start
        whole_link = link if isinstance(link, int) else 0
        self._link.append(whole_link if 0 < whole_link < _GREATEST_LINK else 0)

    def summary(self, path: str, files: int) -> Trace:
        """Return the sums of all spans."""
        sums = Sums()
        for (kind, name, detail), figures in zip(
            self._groups, self._figures, strict=True
        ):
            shape = LaunchShape(*detail) if isinstance(detail, tuple) else None
            sums.add(kind, bounded(name), figures, shape)
        tool = "PyTorch's profiler" if self._devices else "trace events"
        return sums.trace(path, tool, "", tuple(self._gpus()), self.problems, files)

    def _gpus(self) -> Iterator[TracedGpu]:
        for each in self._devices[:100]:
            yield gpu(each.id, each.name, each.multiprocessors, each.major, each.minor)
        for (what, pid), name in self._known.items():
            number = whole(pid) or 0
            if what == "process_name" and number >= _GPU_PID:
                number -= _GPU_PID
                yield TracedGpu(number, name.removesuffix(f"({number})").strip())

    def spans(self) -> Spans:
        """Return all spans."""
        return self._spans

    def lane(self, key: Any) -> Lane:  # noqa: ANN401 - what tells the lane apart
        """Return the lane of a key."""
        kind, pid, tid = key
        process = self._known.get(("process_name", pid), "")
        thread = self._known.get(("thread_name", (pid, tid))) or f"thread {tid}"
        title = self._streams.get(key) or thread
        if not isinstance(pid, int) or pid < _GPU_PID:
            number = bounded(str(pid), LONGEST_TITLE)
            process = f"{process} ({number})" if process else f"process {number}"
        return Lane(process, bounded(title, LONGEST_TITLE), kind)

    def describe(self, ref: int, whole_one: bool) -> Description:
        """Return a span's name and, of one that is not merged, what else is known."""
        if self._named is None:
            self._named = list(self._groups)
        _, name, detail = self._named[self._group[ref]]
        if not whole_one:
            return Description(bounded(name))
        return Description(bounded(name), _facts(detail), self._link[ref] or None)

    def close(self) -> None:
        """Do nothing: all was read."""


_Triple = tuple[int, int, int]
_Detail = (
    tuple[int | None, _Triple, _Triple, int | None, int | None, int | None] | int | None
)
"""A launch's configuration as a LaunchShape has it, or a copy's bytes."""

_Group = tuple[LaneKind, str, _Detail]


def _detail(args: EventArgs, pid: Number) -> _Detail:
    if args.grid is None or args.block is None:
        return args.bytes
    number = args.device
    if number is None and isinstance(pid, int) and pid >= _GPU_PID:
        number = pid - _GPU_PID
    shared = args.dynamic_shared if args.shared is None else args.shared
    # A plain tuple, as a million launches may have one each.
    return number, args.grid, args.block, args.registers, args.static_shared, shared


def _facts(detail: _Detail) -> Facts:
    if isinstance(detail, tuple):
        return LaunchShape(*detail).facts()
    size = spelled(detail, "bytes")
    return (("size", size),) if size else ()


def _stream_title(args: EventArgs) -> str:
    """Return the title of a stream, "" if the event does not say."""
    if args.device is None or args.stream is None:
        return ""
    return f"GPU {args.device}, stream {args.stream}"


def _nanoseconds(value: Number, most: float) -> int | None:
    """Return a time of microseconds in nanoseconds, None for an impossible one."""
    if type(value) is float and 0.0 <= value <= most:
        return int(value * 1000 + 0.5)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if value is None or not 0 <= value <= most:
        return None
    return int(value * 1000 + 0.5)
