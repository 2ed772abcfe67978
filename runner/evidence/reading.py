"""Read all that a report of a run is made of.

The beginning and the end of what each command printed, in bounded memory.

events.jsonl says which bytes of the logs are whose; only those that are shown are read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import msgspec
from msgspec import Struct

from runner import files, traces
from runner.core import RunRecord, Stream, kernel_shapes_reader
from runner.core.errors import RaiError
from runner.core.evidence import OutputEnds, RunEvidence
from runner.core.kernel_shapes import FILE, KernelShapes
from runner.core.trace import Timeline, Trace
from runner.evidence import build
from runner.markup.reported import readable
from runner.store import measurements, tags
from runner.store.paths import RunPaths
from runner.store.tail import Tail

FEWEST_SPANS = 5000
"""A timeline has so many at least, however many profiles there are."""

MOST_CPU_S = 60.0
"""After so much work no further profile is read; a million records take 4 s."""


class FoundEvidence(Struct, frozen=True):
    """A run, and the timelines of its profiles by their names in the build folder."""

    run: RunEvidence
    timelines: Mapping[str, Timeline]


def read(
    paths: RunPaths,
    record: RunRecord,
    away: str = "",
    *,
    timelines: bool = False,
) -> FoundEvidence:
    """Return what a run left behind.

    What cannot be read is among the problems, and the rest stands. Timelines are read
    only if wanted.
    """
    printed, problems = outputs(paths, [c.index for c in record.first_round])
    with TemporaryDirectory(prefix="rai-report-") as folder:
        into = Path(folder)
        names, unread = build.unpack(paths, record, into)
        found, wrong = _shapes(into) if FILE in names else (None, ())
        traced = [name for name in names if name != FILE]
        sums, drawn, unreadable = profiles(into, traced, timelines=timelines)
    run = RunEvidence(
        record,
        tags.read(paths),
        tags.note(paths),
        away,
        printed,
        found,
        sums,
        measurements.of(paths),
        (*problems, *unread, *wrong, *unreadable),
    )
    return FoundEvidence(run, drawn)


def _shapes(folder: Path) -> tuple[KernelShapes | None, tuple[str, ...]]:
    """Return what the file says, and what is wrong with it."""
    try:
        most = kernel_shapes_reader.MOST_BYTES
        data = files.read_below(folder, FILE, most)
    except OSError as error:
        return None, (f"{FILE} cannot be read: {error.strerror}",)
    found, problems = kernel_shapes_reader.read(data)
    return found, tuple(problem.message for problem in problems)


def profiles(
    folder: Path, names: Sequence[str], *, timelines: bool
) -> tuple[tuple[Trace, ...], dict[str, Timeline], tuple[str, ...]]:
    """Return the sums of each file, its timeline if wanted, and what went wrong.

    The timelines share the spans that one may have, and the sums their names.
    """
    sums: list[Trace] = []
    drawn: dict[str, Timeline] = {}
    problems: list[str] = []
    most = max(traces.MOST // max(len(names), 1), FEWEST_SPANS)
    begun = time.process_time()
    for name in names:
        if time.process_time() - begun > MOST_CPU_S:
            problems.append(f"{name} is not read: the profiles before it took too long")
            continue
        try:
            if timelines:
                found, drawn[name] = traces.read(folder / name, name, most)
            else:
                found = traces.summary(folder / name, name)
        except (OSError, RaiError) as error:
            problems.append(str(error))
            continue
        if len(names) > 1:
            found = traces.shared(found, len(names))
        sums.append(found)
        problems += [f"{name}: {problem}" for problem in found.problems]
    return tuple(sums), drawn, tuple(problems)


MOST_BYTES = 1 << 20
"""Of all commands of a run together, which share it equally."""

PART_BYTES = 16 << 10
"""The most of a command's beginning, and of its end."""

_LAST = 1 << 62
_OUTPUT = b'"event":"Output"'


class _Bytes(Struct):
    """Where in a stream's log a piece of output is, and whose it is."""

    index: int
    stream: Stream
    offset: int
    length: int


_piece = msgspec.json.Decoder(_Bytes)


class _Ends:
    """Where the beginning and the end of one command's output are."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.total = 0
        self.head: list[_Bytes] = []
        self.tail: deque[_Bytes] = deque()
        self._head_size = self._tail_size = 0

    def add(self, piece: _Bytes) -> None:
        """Take in the next piece; forget what is in the middle by now."""
        self.total += piece.length
        if (room := self._most - self._head_size) > 0:
            taken = min(room, piece.length)
            _append(self.head, _part(piece, 0, taken))
            self._head_size += taken
            piece = _part(piece, taken, piece.length)
        if piece.length:
            _append(self.tail, piece)
            self._tail_size += piece.length
        while (over := self._tail_size - self._most) > 0:
            first = self.tail.popleft()
            if first.length > over:
                self.tail.appendleft(_part(first, over, first.length))
            self._tail_size -= min(over, first.length)

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.total == self._head_size + self._tail_size


def outputs(
    paths: RunPaths, commands: Collection[int]
) -> tuple[dict[int, OutputEnds], tuple[str, ...]]:
    """Return what commands printed, by index, and what could not be read.

    Both streams are in it, in the order in which their pieces came.
    """
    each = min(PART_BYTES, MOST_BYTES // 2 // max(len(commands), 1))
    ends = {index: _Ends(each) for index in commands}
    problems = []
    try:
        for piece in _pieces(paths):
            if (of := ends.get(piece.index)) is not None:
                of.add(piece)
    except (OSError, RaiError) as error:
        problems.append(f"events.jsonl cannot be read to its end: {error}")
    found: dict[int, OutputEnds] = {}
    try:
        with ExitStack() as opened:
            logs: dict[Stream, BinaryIO] = {}
            for index, of in ends.items():
                for stream in {one.stream for one in (*of.head, *of.tail)} - set(logs):
                    log = files.open_regular(paths.log(stream))
                    logs[stream] = opened.enter_context(log)
                if of.total:
                    found[index] = _read(logs, of)
    except OSError as error:
        problems.append(f"what commands printed cannot be read: {error}")
    return found, tuple(problems)


def _pieces(paths: RunPaths) -> Iterator[_Bytes]:
    for line in Tail(paths).lines():
        if _OUTPUT not in line:
            continue
        try:
            piece = _piece.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RaiError(str(error)) from error
        if not 0 <= piece.offset < _LAST or not 0 <= piece.length < _LAST:
            raise RaiError("output at a place that no file has")
        if piece.length:
            yield piece


def _part(piece: _Bytes, start: int, end: int) -> _Bytes:
    return _Bytes(piece.index, piece.stream, piece.offset + start, end - start)


def _append(pieces: MutableSequence[_Bytes], piece: _Bytes) -> None:
    """Add a piece; lengthen the last one if it continues that."""
    last = pieces[-1] if pieces else None
    if (
        last is not None
        and last.stream is piece.stream
        and last.offset + last.length == piece.offset
    ):
        last.length += piece.length
    else:
        pieces.append(piece)


def _read(logs: Mapping[Stream, BinaryIO], ends: _Ends) -> OutputEnds:
    """Return an output; where it is cut, its parts end and begin with whole lines."""
    head, tail = _joined(logs, ends.head), _joined(logs, ends.tail)
    if ends.whole:
        return OutputEnds(readable(head + tail, whole=True))
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    left_out = ends.total - len(head) - len(tail)
    return OutputEnds(readable(head, whole=True), readable(tail, whole=True), left_out)


def _joined(logs: Mapping[Stream, BinaryIO], pieces: Iterable[_Bytes]) -> bytes:
    found = []
    for piece in pieces:
        log = logs[piece.stream]
        log.seek(piece.offset)
        found.append(log.read(piece.length))
    return b"".join(found)
