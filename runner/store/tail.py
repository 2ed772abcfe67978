"""Read what was added to a run's folder since the last read."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from runner import files
from runner.core import Stream
from runner.core.errors import RaiError
from runner.core.events import Event, Output, from_line
from runner.store.paths import RunPaths
from runner.store.runs import MOST_LINE_BYTES

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
        with files.open_regular(self._paths.events) as file:
            file.seek(self._read)
            for line in files.lines(file, MOST_LINE_BYTES):
                self._read += len(line)
                yield line

    def events(self) -> Iterator[tuple[float, Event]]:
        """Yield the new events with times; an Output in pieces, each with its bytes.

        Raises:
            RaiError: a line is no event.
        """
        for line in self.lines():
            try:
                at, event = from_line(line)
            except ValueError as error:
                raise RaiError(f"{self._paths.events} is damaged: {error}") from error
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
        log_file = self._paths.stdout if out else self._paths.stderr
        with files.open_regular(log_file) as log:
            log.seek(event.offset)
            left = event.length
            while left > 0 and (data := log.read(min(left, CHUNK_BYTES))):
                left -= len(data)
                yield data
