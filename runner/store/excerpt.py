"""Read a part of a run's output: its last lines, or what is of a time or a command.

The log files have the bytes, and events.jsonl says in which order they came and when.
Both are read backwards from their ends, or from a place that bisection finds, so that a
part of a large log costs no more than a part of a small one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from runner import files
from runner.core import Stream
from runner.core.errors import RaiError
from runner.core.events import CommandStarted, Event, Output
from runner.store import runs
from runner.store.paths import RunPaths
from runner.store.runs import MOST_LINE_BYTES
from runner.store.tail import CHUNK_BYTES, Tail, parsed

BLOCK_BYTES = 64 << 10
_OUTPUT = b'"event":"Output"'


class Part(Struct, frozen=True):
    """Which part of the output: all of it where nothing is given.

    ``lines`` is how many of the last lines, ``since`` a time in seconds since 1970,
    ``commands`` are the indices of commands, whose repeats belong to them. ``round`` is
    0 for the first round.
    """

    lines: int | None = None
    since: float = 0.0
    commands: frozenset[int] | None = None
    round: int | None = None

    @property
    def of_commands(self) -> bool:
        """Whether it leaves out the output of some commands."""
        return self.commands is not None or self.round is not None

    def has(self, index: int, round: int) -> bool:
        """Whether it has what a command printed in a round."""
        of_command = self.commands is None or index in self.commands
        return of_command and self.round in (None, round)


class Chunk(Struct, frozen=True):
    """Bytes of one stream that came at one time."""

    at: float
    stream: Stream
    data: bytes


class Excerpt:
    """A reader of a part of a run's output, and of what is added later."""

    def __init__(self, paths: RunPaths, part: Part) -> None:
        self._paths, self._part = paths, part
        self._tail: Tail | None = None
        self._starts = dict.fromkeys(Stream, 0)
        self._repeats: dict[int, tuple[int, int]] = {}
        """By index, the command that each repeat is of, and its round."""

    def pieces(self) -> Iterator[Chunk]:
        """Yield the output that is in the part and was not read yet."""
        for at, event in self._opened().events(self._offset):
            self._learn(event)
            if isinstance(event, Output) and self._wanted(at, event.index):
                yield Chunk(at, event.stream, event.data)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of events.jsonl instead; the last of them count as lines."""
        for line in self._opened(events=True).lines():
            part = self._part
            if not (part.of_commands or part.since) or self._has(line):
                yield line

    def _has(self, line: bytes) -> bool:
        at, event = parsed(self._paths, line)
        self._learn(event)
        index: int | None = getattr(event, "index", None)
        if index is None:
            return at >= self._part.since and not self._part.of_commands
        return self._wanted(at, index)

    def _wanted(self, at: float, index: int) -> bool:
        command, number = self._repeats.get(index, (index, 0))
        return at >= self._part.since and self._part.has(command, number)

    def _learn(self, event: Event) -> None:
        """Note of which command a repeat is that began meanwhile."""
        if isinstance(event, CommandStarted) and event.repeats is not None:
            self._repeats[event.index] = event.repeats, event.round

    def _offset(self, at: float, event: Output) -> int:
        """Return how many bytes of an event's output are left out."""
        if not self._wanted(at, event.index):
            return event.length
        return min(max(0, self._starts[event.stream] - event.offset), event.length)

    def _opened(self, *, events: bool = False) -> Tail:
        if self._tail is None:
            self._recorded()
            self._tail = Tail(self._paths, self._start(events=events))
            self._recorded()  # those that began before the place that was found
        return self._tail

    def _recorded(self) -> None:
        """Note of which commands the repeats are so far."""
        if self._part.of_commands and (record := runs.read(self._paths)):
            for one in record.commands:
                if one.repeats is not None:
                    self._repeats[one.index] = one.repeats, one.round

    def _start(self, *, events: bool) -> int:
        """Return where in events.jsonl the part begins."""
        path, part = self._paths.events, self._part
        if not path.exists() or (part.lines is None and not part.since):
            return 0
        first = since(self._paths, part.since) if part.since else 0
        if part.lines is None:
            return first
        if events:
            return self._last_events(first, part.lines)
        return self._last_lines(first, part.lines)

    def _last_events(self, first: int, count: int) -> int:
        start = whole_end(self._paths.events)
        for place, line in backwards(self._paths.events, first):
            if count == 0:
                break
            if self._has(line):
                start, count = place, count - 1
        return start

    def _last_lines(self, first: int, count: int) -> int:
        """Return where the last lines begin; note where they do in each log."""
        start, counter = whole_end(self._paths.events), _Counter(count)
        for place, line in backwards(self._paths.events, first):
            if counter.done:
                break
            if _OUTPUT not in line:
                continue
            at, event = parsed(self._paths, line)
            if isinstance(event, Output) and self._wanted(at, event.index):
                start = place
                for offset, data in self._backwards(event):
                    counter.read(event.stream, offset, data)
        self._starts |= counter.starts
        return start

    def _backwards(self, event: Output) -> Iterator[tuple[int, bytes]]:
        with files.open_regular(self._paths.log(event.stream)) as log:
            end = event.offset + event.length
            while end > event.offset:
                start = max(event.offset, end - CHUNK_BYTES)
                log.seek(start)
                yield start, log.read(end - start)
                end = start


class _Counter:
    """Finds where the last lines of two streams begin, from the last piece back.

    A line counts where it ends. So a line that is printed slowly, between others of the
    other stream, is among the last if its end is.
    """

    def __init__(self, count: int) -> None:
        self.starts: dict[Stream, int] = {}
        self._left = count
        self._open: set[Stream] = set()
        """Streams of which a line counts whose beginning is not found yet."""
        self._seen: set[Stream] = set()

    @property
    def done(self) -> bool:
        """Whether nothing before the last piece is needed."""
        return self._left == 0 and not self._open

    def read(self, stream: Stream, offset: int, data: bytes) -> None:
        """Read a piece that is before those already read."""
        if stream not in self._seen:
            self._seen.add(stream)
            if not data.endswith(b"\n"):
                self._count(stream, offset + len(data))
        if self._left == 0 and stream in self.starts and stream not in self._open:
            return
        ends = data.count(b"\n")
        if 0 < ends <= self._left:
            # Each of these lines counts; the first begins in an earlier piece.
            self._left -= ends
            self._open.add(stream)
            return
        end = len(data)
        while (end := data.rfind(b"\n", 0, end)) >= 0:
            self._open.discard(stream)
            self.starts[stream] = offset + end + 1
            if self._left == 0:
                return
            self._count(stream, offset + end + 1)

    def _count(self, stream: Stream, end: int) -> None:
        """Count a line that ends here, if lines are left."""
        if self._left:
            self._left -= 1
            self._open.add(stream)
        else:
            self.starts.setdefault(stream, end)


def since(paths: RunPaths, at: float) -> int:
    """Return the place of the first whole line of events.jsonl from a time on."""
    low, high = 0, whole_end(paths.events)
    with files.open_regular(paths.events) as file:
        while low < high:
            middle = (low + high) // 2
            file.seek(middle)
            if middle:
                file.seek(middle - 1)
                file.readline(MOST_LINE_BYTES)
            place = file.tell()
            line = file.readline(MOST_LINE_BYTES) if place < high else b""
            if not line or parsed(paths, line)[0] >= at:
                high = middle
            else:
                low = place + len(line)
    return low


def whole_end(path: Path) -> int:
    """Return where the last whole line of a file ends."""
    with files.open_regular(path) as file:
        end = file.seek(0, 2)
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            file.seek(start)
            if (found := file.read(end - start).rfind(b"\n")) >= 0:
                return start + found + 1
            end = start
    return 0


def backwards(path: Path, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines of a file from the last to the one at a place."""
    end, rest = whole_end(path), b""
    with files.open_regular(path) as file:
        while end > first:
            start = max(first, end - BLOCK_BYTES)
            file.seek(start)
            block = file.read(end - start) + rest
            end = start
            begin = 0 if start == first else block.find(b"\n", 0, -1) + 1
            if begin == 0 and start > first:
                if len(block) > MOST_LINE_BYTES:
                    raise RaiError(f"{path} is damaged: a line is too long")
                rest = block
                continue
            rest, block = block[:begin], block[begin:]
            place = start + begin + len(block)
            for line in reversed(block.splitlines(keepends=True)):
                place -= len(line)
                yield place, line
