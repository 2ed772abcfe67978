"""The sums and the spans of a file of trace events, which is read once."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from typing import Any

from runner.core.trace import KernelLaunches, Lane, LaneKind, Trace, TracedGpu
from runner.traces.building import Description, Interned
from runner.traces.event_stream import EventArgs, EventStream, Number, TraceEvent
from runner.traces.event_values import (
    GPU_PID,
    Detail,
    facts,
    launch,
    nanoseconds,
    short,
    stream_title,
)
from runner.traces.layouts import API, GPU
from runner.traces.spans import MOST_NS, MOST_SPANS, LaneKey, Spans
from runner.traces.totals import (
    MOST_LAUNCHES,
    MOST_TEXT,
    OTHERS,
    Sums,
    configurations,
)
from runner.traces.words import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    bounded,
    whole,
)

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

_SECTIONS = {LaneKind.GPU: GPU, LaneKind.API: API, LaneKind.RANGE: ""}

_WITH_DETAIL = frozenset(cat for cat, kind in _KINDS.items() if kind is LaneKind.GPU)

_GREATEST_LINK = 1 << 62
_MOST_US = MOST_NS / 1000
_LATEST_US = float(1 << 51)
_MOST_KNOWN = 100_000
"""Names, configurations, threads and arrows that are told apart."""

_MOST_NESTED = 1000
"""If more spans are open at once, their names are cut."""

_MOST_KEYS = 32 << 20
"""Characters of all that spans and lanes are recognized by when they come again."""


class EventTrace:
    """All spans of a file, as columns, with the numbers of what they share."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._spans = Spans()
        self._group = array("I")
        self._link = array("q")
        self._groups = Interned()
        self._known: dict[tuple[str, Hashable], str] = {}
        self._streams: dict[LaneKey, str] = {}
        self._lanes: dict[tuple[object, ...], int] = {}
        self._alike: dict[tuple[object, ...], int] = {}
        self._named: list[tuple[LaneKind, str, Detail]] | None = None
        self._text = self._key_text = 0
        self._open: dict[LaneKey, list[tuple[int, TraceEvent]]] = defaultdict(list)
        self._opened = 0
        self._wrong_times = 0
        self._unmatched = 0
        for events in stream.pieces():
            self._take(events)
        self._unmatched += self._opened
        self.problems = [*stream.problems, *self._problems()]

    def _take(self, events: list[TraceEvent]) -> None:
        for event in events:
            if event.ph != "X":
                self._other(event)
                continue
            ts, dur = event.ts, event.dur
            # Most are floats, and calls cost more than what they do here.
            if (
                type(ts) is float
                and type(dur) is float
                and 0.0 <= ts <= _LATEST_US
                and 0.0 <= dur <= _MOST_US
            ):
                self._add(event, int(ts * 1000 + 0.5), int(dur * 1000 + 0.5))
                continue
            start, length = nanoseconds(ts, _LATEST_US), nanoseconds(dur or 0, _MOST_US)
            if start is None or length is None:
                self._wrong_times += 1
            else:
                self._add(event, start, length)

    def _other(self, event: TraceEvent) -> None:
        phase = event.ph
        if phase == "M":
            self._name(event)
        elif phase == "B":
            begun = nanoseconds(event.ts, _LATEST_US)
            if begun is None or self._opened > _MOST_KNOWN:
                self._wrong_times += 1
            else:
                self._open[_thread(event)].append((begun, self._cut(event)))
                self._opened += 1
        elif phase == "E":
            self._end(event)

    def _cut(self, event: TraceEvent) -> TraceEvent:
        """Return an event that is kept until it ends, without what is long."""
        nested = self._opened > _MOST_NESTED
        event.name = bounded(event.name, LONGEST_TITLE if nested else LONGEST_TEXT)
        event.cat = event.cat if event.cat in _KINDS else None
        event.pid, event.tid, event.id = short(event.pid), short(event.tid), None
        if event.args is not None:
            event.args.name = None
            event.args.stream = short(event.args.stream)
            event.args.correlation = short(event.args.correlation)
        return event

    def _end(self, event: TraceEvent) -> None:
        where, ended = _thread(event), nanoseconds(event.ts, _LATEST_US)
        if where not in self._open or ended is None:
            self._unmatched += 1
            return
        begun, opened = self._open[where].pop()
        self._opened -= 1
        if not self._open[where]:
            del self._open[where]
        if 0 <= ended - begun <= MOST_NS:
            self._add(opened, begun, ended - begun)
        else:
            self._wrong_times += 1

    def _name(self, event: TraceEvent) -> None:
        if event.args is None or event.args.name is None:
            return
        where: Hashable = short(event.pid)
        if event.name == "thread_name":
            where = (where, short(event.tid))
        if len(self._known) < _MOST_KNOWN:
            name = bounded(event.args.name, LONGEST_TITLE).strip()
            self._known[str(event.name)[:20], where] = name

    def _add(self, event: TraceEvent, start: int, length: int) -> None:
        spans, args = self._spans, event.args
        place = len(spans.start)
        if place >= MOST_SPANS:
            spans.left_out += 1
            return
        category = event.cat
        of_lane = (category, event.pid, event.tid)
        lane = self._lanes.get(of_lane)
        if lane is None:
            lane = self._lane(of_lane, args)
        link: Number = None
        like: tuple[object, ...] = (category, event.name)
        if args is not None:
            link = args.correlation
            if category in _WITH_DETAIL:
                like = (
                    *(category, event.name, event.pid, args.device),
                    *(args.grid, args.block, args.registers, args.bytes),
                    *(args.static_shared, args.dynamic_shared, args.shared),
                )
        group = self._alike.get(like)
        if group is None:
            group = self._number(like, event)
        spans.ref.append(place)
        spans.lane.append(lane)
        spans.start.append(start)
        spans.length.append(length)
        self._group.append(group)
        self._link.append(
            link if link.__class__ is int and 0 < link < _GREATEST_LINK else 0
        )

    def _lane(self, of_lane: tuple[Any, ...], args: EventArgs | None) -> int:
        """Return the number of a lane that is met for the first time."""
        category, pid, tid = of_lane
        key = (_KINDS.get(category or "", LaneKind.RANGE), short(pid), short(tid))
        known = len(self._streams) >= _MOST_KNOWN or key in self._streams
        if args is not None and key[0] is LaneKind.GPU and not known:
            self._streams[key] = stream_title(args)
        number = self._spans.lanes[key]
        if len(self._lanes) < _MOST_KNOWN and self._fits(of_lane):
            self._lanes[of_lane] = number
        return number

    def _number(self, like: tuple[object, ...], event: TraceEvent) -> int:
        """Return the number of the spans that are like one that is met first."""
        kind = _KINDS.get(event.cat or "", LaneKind.RANGE)
        name = bounded(event.name) or "(no name)"
        detail: Detail = None
        if kind is LaneKind.GPU and event.args is not None:
            detail = launch(event.args, event.pid)
        key = (kind, name, detail)
        if key not in self._groups:
            self._text += len(name)
            if len(self._groups) >= _MOST_KNOWN or self._text > MOST_TEXT:
                plain = (kind, name, None)
                key = plain if plain in self._groups else (kind, OTHERS, None)
        number = self._groups[key]
        if len(self._alike) < _MOST_KNOWN and self._fits(like):
            self._alike[like] = number
        return number

    def _fits(self, key: tuple[object, ...]) -> bool:
        """Whether there is room to keep a key; once there is none there never is."""
        if self._key_text <= _MOST_KEYS:
            self._key_text += len(repr(key))
        return self._key_text <= _MOST_KEYS

    def _problems(self) -> list[str]:
        told = [
            (self._wrong_times, "spans are left out: their times cannot be"),
            (self._unmatched, "spans begin or end only, and are left out"),
            (self._spans.left_out, f"spans over {MOST_SPANS:,} are left out"),
        ]
        return [f"{count:,} {words}" for count, words in told if count]

    def summary(self, path: str) -> Trace:
        """Return the sums of all spans."""
        sums = Sums()
        begin = min(self._spans.start, default=0)
        launches = []
        for (kind, name, detail), figures in zip(
            self._groups, self._figures(), strict=True
        ):
            count, total, least, most, first = figures
            sums.add(_SECTIONS[kind], name, *figures)
            if isinstance(detail, tuple):
                gpu, grid, block, registers, static, dynamic = detail
                launches.append(
                    KernelLaunches(
                        name,
                        gpu,
                        grid,
                        block,
                        registers,
                        static,
                        dynamic,
                        count,
                        total / 1e9,
                        least / 1e9,
                        most / 1e9,
                        (first - begin) / 1e9,
                    )
                )
        launches.sort(key=lambda each: -each.total_s)
        problems = [*self.problems, *sums.problems()]
        if len(launches) > MOST_LAUNCHES:
            problems.append(configurations(len(launches)))
        return Trace(
            path,
            "PyTorch's profiler" if self._stream.head.devices else "trace events",
            gpus=tuple(self._gpus()),
            launches=tuple(launches[:MOST_LAUNCHES]),
            totals=sums.totals(),
            spans=sums.spans,
            problems=tuple(problems),
        )

    def _figures(self) -> list[tuple[int, int, int, int, int]]:
        """Return the number, sum, least, most and first start of each group."""
        every = range(len(self._groups))
        counts = Counter(self._group)
        total, most = [0 for _ in every], [0 for _ in every]
        least, first = [1 << 62 for _ in every], [1 << 62 for _ in every]
        spans = self._spans
        for group, start, length in zip(
            self._group, spans.start, spans.length, strict=True
        ):
            total[group] += length
            if length > most[group]:
                most[group] = length
            if length < least[group]:
                least[group] = length
            if start < first[group]:
                first[group] = start
        return [(counts[n], total[n], least[n], most[n], first[n]) for n in every]

    def _gpus(self) -> Iterator[TracedGpu]:
        for each in self._stream.head.devices[:100]:
            made = "" if each.major is None else f"{each.major}.{each.minor or 0}"
            name = bounded(each.name, LONGEST_TITLE)
            yield TracedGpu(each.id, name, made, each.multiprocessors)
        for (what, pid), name in self._known.items():
            number = whole(pid) or 0
            if what == "process_name" and number >= GPU_PID:
                number -= GPU_PID
                yield TracedGpu(number, name.removesuffix(f"({number})").strip())

    def spans(self) -> Spans:
        """Return all spans."""
        return self._spans

    def lane(self, key: Any) -> Lane:  # noqa: ANN401 - what tells the lane apart
        """Return the lane of a key."""
        kind, pid, tid = key
        process = self._known.get(("process_name", pid), "")
        if not isinstance(pid, int) or pid < GPU_PID:
            process = f"{process} ({pid})" if process else f"process {pid}"
        thread = self._known.get(("thread_name", (pid, tid)), f"thread {tid}")
        return Lane(process, self._streams.get(key) or thread, kind)

    def describe(self, ref: int, whole_one: bool) -> Description:
        """Return a span's name and, of one that is not merged, what else is known."""
        if self._named is None:
            self._named = list(self._groups)
        _, name, detail = self._named[self._group[ref]]
        if not whole_one:
            return Description(name)
        return Description(name, tuple(facts(detail)), self._link[ref] or None)

    def close(self) -> None:
        """Do nothing: all was read."""


def _thread(event: TraceEvent) -> LaneKey:
    return short(event.pid), short(event.tid)
