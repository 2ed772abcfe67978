"""Read what was added to a run's folder since the last read."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from runner.core import Stream
from runner.core.events import Event, Output, from_line
from runner.store.paths import RunPaths

CHUNK_BYTES = 1 << 20


class Tail:
    """A reader of a run's events that continues where it stopped, at whole lines."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._read = 0

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines of events.jsonl."""
        if not self._paths.events.exists():
            return
        with self._paths.events.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield line

    def events(self) -> Iterator[tuple[float, Event]]:
        """Yield the new events with times; an Output in pieces, each with its bytes."""
        for line in self.lines():
            at, event = from_line(line)
            if isinstance(event, Output):
                for data in self._pieces(event):
                    yield at, replace(event, data=data)
            else:
                yield at, event

    def output(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield the new output, in the order in which it was written."""
        for _, event in self.events():
            if isinstance(event, Output):
                yield event.stream, event.data

    def _pieces(self, event: Output) -> Iterator[bytes]:
        out = event.stream is Stream.STDOUT
        with (self._paths.stdout if out else self._paths.stderr).open("rb") as log:
            log.seek(event.offset)
            left = event.length
            while left > 0 and (data := log.read(min(left, CHUNK_BYTES))):
                left -= len(data)
                yield data
