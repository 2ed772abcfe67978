"""Read a part of a run's output: its last lines, or what is of a time or a command.

The log files have the bytes, and events.jsonl says in which order they came and when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from runner.core import Stream
from runner.core.events import CommandStarted, Event, Output
from runner.store.paths import RunPaths
from runner.store.runs import CHUNK_BYTES, Tail, parsed
from runner.system import files

LAST_LINES = 200


class Part(Struct, frozen=True):
    """Which part of the output: all of it where nothing is given.

    ``lines`` is how many of the last lines, ``since`` a time in seconds since 1970,
    ``commands`` are the indices of commands, whose repeats belong to them.
    """

    lines: int | None = None
    since: float = 0.0
    commands: frozenset[int] | None = None


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
        self._repeats: dict[int, int] = {}
        """By index, the command that each repeat is of."""

    def pieces(self) -> Iterator[Chunk]:
        """Yield the output that is in the part and was not read yet."""
        if self._tail is None:
            self._tail = Tail(self._paths, self._first_line())
        for at, event in self._tail.events(self._offset):
            self._learn(event)
            if isinstance(event, Output) and self._wanted(at, event.index):
                yield Chunk(at, event.stream, event.data)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of events.jsonl instead; the last of them count as lines."""
        if self._tail is None:
            self._tail = Tail(self._paths)
            chosen = filter(self._has, self._tail.lines())
            yield from deque(chosen, self._part.lines)
        yield from filter(self._has, self._tail.lines())

    def _has(self, line: bytes) -> bool:
        at, event = parsed(self._paths, line)
        self._learn(event)
        index: int | None = getattr(event, "index", None)
        if index is None:
            return at >= self._part.since and self._part.commands is None
        return self._wanted(at, index)

    def _wanted(self, at: float, index: int) -> bool:
        commands = self._part.commands
        of_command = commands is None or self._repeats.get(index, index) in commands
        return of_command and at >= self._part.since

    def _learn(self, event: Event) -> None:
        """Note of which command a repeat is."""
        if isinstance(event, CommandStarted) and event.repeats is not None:
            self._repeats[event.index] = event.repeats

    def _offset(self, at: float, event: Output) -> int:
        """Return how many bytes of an event's output are left out."""
        if not self._wanted(at, event.index):
            return event.length
        return min(max(0, self._starts[event.stream] - event.offset), event.length)

    def _first_line(self) -> int:
        """Return where the last lines begin in events.jsonl; note it in each log."""
        if self._part.lines is None:
            return 0
        printed: list[tuple[int, Output]] = []
        place = 0
        for line in Tail(self._paths).lines():
            at, event = parsed(self._paths, line)
            self._learn(event)
            if isinstance(event, Output) and self._wanted(at, event.index):
                printed.append((place, event))
            place += len(line)
        counter = _Counter(self._part.lines)
        while printed and not counter.done:
            place, event = printed.pop()
            for offset, data in self._backwards(event):
                counter.read(event.stream, offset, data)
        self._starts |= counter.starts
        return place

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


def last_output(paths: RunPaths, command: int, most_bytes: int) -> tuple[bytes, bool]:
    """Return the end of a command's output, and whether that is all of it.

    Both streams are in it, in the order in which their pieces came. ``command`` is the
    command's index.

    Raises:
        RaiError: the run's events are damaged.
        OSError: a file of the run cannot be read.
    """
    part = Part(lines=LAST_LINES, commands=frozenset({command}))
    kept: deque[bytes] = deque()
    size = 0
    whole = True
    for chunk in Excerpt(paths, part).pieces():
        kept.append(chunk.data[-most_bytes:])
        whole = whole and len(chunk.data) <= most_bytes
        size += len(kept[-1])
        while size - len(kept[0]) >= most_bytes:
            size -= len(kept.popleft())
            whole = False
    data = b"".join(kept)
    whole = whole and len(data) <= most_bytes and data.count(b"\n") < LAST_LINES
    return data[-most_bytes:], whole
