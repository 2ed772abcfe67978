"""Read what was added to a run's folder since the last read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO

from msgspec.structs import replace

from runner import files
from runner.core import Stream
from runner.core.errors import RaiError
from runner.core.events import Event, Output, from_line
from runner.store.paths import RunPaths
from runner.store.runs import MOST_LINE_BYTES

CHUNK_BYTES = 1 << 20
Skip = Callable[[float, Output], int]


class Tail:
    """A reader of a run's events that continues where it stopped, at whole lines."""

    def __init__(self, paths: RunPaths, read: int = 0) -> None:
        """Begin at a place in events.jsonl, where a line begins."""
        self._paths = paths
        self._read = read

    @property
    def begun(self) -> bool:
        """Whether there was a line."""
        return self._read > 0

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines of events.jsonl."""
        if not self._paths.events.exists():
            return
        with files.open_regular(self._paths.events) as file:
            file.seek(self._read)
            for line in files.lines(file, MOST_LINE_BYTES):
                self._read += len(line)
                yield line

    def events(self, skip: Skip = lambda *_: 0) -> Iterator[tuple[float, Event]]:
        """Yield the new events with times; an Output in pieces, each with its bytes.

        ``skip`` returns how many bytes are left out at the beginning of an Output.

        Raises:
            RaiError: a line is no event.
        """
        logs: dict[Stream, BinaryIO] = {}
        with ExitStack() as opened:
            for line in self.lines():
                at, event = parsed(self._paths, line)
                if not isinstance(event, Output):
                    yield at, event
                    continue
                stream, begin = event.stream, skip(at, event)
                if begin < event.length and stream not in logs:
                    log = files.open_regular(self._paths.log(stream))
                    logs[stream] = opened.enter_context(log)
                for data in _pieces(logs.get(stream), event, begin):
                    yield at, replace(event, data=data)


def _pieces(log: BinaryIO | None, event: Output, begin: int) -> Iterator[bytes]:
    left = event.length - begin
    if log is None or left <= 0:
        return
    if log.tell() != event.offset + begin:
        log.seek(event.offset + begin)
    while left > 0 and (data := log.read(min(left, CHUNK_BYTES))):
        left -= len(data)
        yield data


def parsed(paths: RunPaths, line: bytes) -> tuple[float, Event]:
    """Parse a line of a run's events.jsonl; raise RaiError if it is no event."""
    try:
        at, event = from_line(line)
        if isinstance(event, Output) and min(event.offset, event.length) < 0:
            raise ValueError("output at a place below 0")
    except ValueError as error:
        raise RaiError(f"{paths.events} is damaged: {error}") from error
    return at, event
