"""Make, write and read the folders of the runs."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import TracebackType
from typing import BinaryIO, Self

from msgspec.structs import replace

from runner import files
from runner.core import Reason, RunRecord, Stream, Verdict, events, record
from runner.store.paths import Home, RunPaths


def create(home: Home) -> RunPaths:
    """Make the folder of a new run, under a fresh id."""
    paths = home.run(os.urandom(5).hex())
    paths.root.mkdir(parents=True, mode=0o700)
    return paths


INTERRUPTED = Verdict(
    True, False, None, Reason.CANCELLED, "interrupted; the output so far is kept"
)


class Recorder:
    """The writer of a run's folder: its logs, events, and finally its record."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.record: RunRecord | None = None
        self._files: dict[str, BinaryIO] = {}
        self._offsets = dict.fromkeys(Stream, 0)

    def __enter__(self) -> Self:
        named = {
            "events": self.paths.events,
            Stream.STDOUT: self.paths.stdout,
            Stream.STDERR: self.paths.stderr,
        }
        # Unbuffered, so that a follower, or a reader after a crash, finds everything.
        self._files = {name: path.open("ab", 0) for name, path in named.items()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind in (KeyboardInterrupt, GeneratorExit) and not self._over:
            # The caller left without waiting for the commands to end.
            self.keep(events.Finished(INTERRUPTED))
        if self.record is not None and self.record.state.final:
            files.write(self.paths.record, record.to_json(self.record))
        for file in self._files.values():
            file.close()

    @property
    def _over(self) -> bool:
        return self.record is None or self.record.state.final

    def keep(self, event: events.Event) -> events.Event:
        """Record an event and return it, an Output with its offset and length."""
        at = round(time.time(), 6)
        if isinstance(event, events.Output):
            event = self._log(event)
        if self.record is None:
            self.record = record.begin(at, event)
        else:
            self.record = record.advance(self.record, at, event)
        if not isinstance(event, events.TRANSIENT):
            self._files["events"].write(events.to_line(event, at))
        return event

    def _log(self, event: events.Output) -> events.Output:
        offset = self._offsets[event.stream]
        pending = memoryview(event.data)
        while pending:
            pending = pending[self._files[event.stream].write(pending) :]
        self._offsets[event.stream] = offset + len(event.data)
        return replace(event, offset=offset, length=len(event.data))


def read(paths: RunPaths) -> RunRecord | None:
    """Return a run's record, made from its events until there is one.

    None if there is neither, or neither can be read. The folder's name is the run's id,
    even if a user has copied or renamed it.
    """
    found: RunRecord | None
    try:
        found = record.from_json(paths.record.read_bytes())
    except (OSError, ValueError):
        try:
            found = record.fold(stamped(paths))
        except OSError:
            return None
    return None if found is None else replace(found, id=paths.id)


def stamped(paths: RunPaths) -> Iterator[tuple[float, events.Event]]:
    """Yield a run's events with their times, up to the last whole line."""
    try:
        with paths.events.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield events.from_line(line)
    except (FileNotFoundError, ValueError):
        return


def folders(home: Home) -> list[RunPaths]:
    """Return the paths of every run, in no order."""
    return [home.run(name) for name in names(home)]


def names(home: Home) -> set[str]:
    """Return the names of the runs' folders."""
    try:
        with os.scandir(home.runs) as entries:
            return {entry.name for entry in entries if entry.is_dir()}
    except FileNotFoundError:
        return set()
