"""Read what was added to a run's folder since the last read."""

from __future__ import annotations

from collections.abc import Iterator

from runner.core import Stream, events
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

    def output(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield the new output, in the order in which it was written."""
        for line in self.lines():
            _, event = events.from_line(line)
            if isinstance(event, events.Output):
                yield from self._bytes(event)

    def _bytes(self, event: events.Output) -> Iterator[tuple[Stream, bytes]]:
        out = event.stream is Stream.STDOUT
        with (self._paths.stdout if out else self._paths.stderr).open("rb") as log:
            log.seek(event.offset)
            left = event.length
            while left > 0 and (data := log.read(min(left, CHUNK_BYTES))):
                left -= len(data)
                yield event.stream, data
