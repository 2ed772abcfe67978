"""Make, write, read and follow the folders of the runs."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import BinaryIO, Self

from msgspec.structs import replace

from runner.core import Problem, Reason, RunRecord, Stream, Verdict, events, record
from runner.core.errors import ConfigError, RaiError
from runner.core.events import Event, Output, from_line
from runner.core.measurement import (
    MEASUREMENT_BYTES,
    Measurement,
    to_json,
)
from runner.store import run_files
from runner.store.paths import WRITABLE, Home, RunPaths
from runner.system import files

REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
"""How a folder refuses a new file, of a user or of all."""

ID = "[0-9a-f]{10}"
"""The names of runs' folders."""


def create(home: Home) -> RunPaths:
    """Make the folder of a new run, under a fresh id.

    Raises:
        ConfigError: this user may not write to the home folder.
    """
    paths = home.run(os.urandom(5).hex())
    try:
        paths.root.mkdir(parents=True, mode=0o700)
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        why = f"cannot write to {home.root}: {error.strerror}"
        raise ConfigError(Problem(why, hint=WRITABLE)) from error
    return paths


RESERVED_BYTES = 64 << 10
"""What a run keeps free for its end: its last events and its record."""


MOST_RECORD_BYTES = 64 << 20
MOST_LINE_BYTES = 16 << 20
"""More than any record and any event takes: what is larger is not of rai."""


class Recorder:
    """The writer of a run's folder: its logs, events, and finally its record.

    An event is written whole or not at all. On a full disk OSError is raised; what was
    reserved then has room for the run's end.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.record: RunRecord | None = None
        self._files: dict[str, BinaryIO] = {}
        self._offsets = dict.fromkeys(Stream, 0)
        # So the times of events never go back, and the spans between them are right.
        self._start_s = time.time() - _elapsed_s()
        self._reserved = files.aside(paths.record)

    def __enter__(self) -> Self:
        named = {
            "events": self.paths.events,
            Stream.STDOUT: self.paths.stdout,
            Stream.STDERR: self.paths.stderr,
        }
        # Unbuffered, so that a follower, or a reader after a crash, finds everything.
        self._files = {name: path.open("ab", 0) for name, path in named.items()}
        with suppress(OSError):
            self._reserved.write_bytes(bytes(RESERVED_BYTES))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        going = self.record is not None and not self.record.state.final
        # On a full disk the events must do: the record can be made from them.
        with suppress(OSError):
            if kind in (KeyboardInterrupt, GeneratorExit) and going:
                # The caller left without waiting for the commands to end.
                why = "interrupted; the output so far is kept"
                verdict = Verdict(True, False, None, Reason.CANCELLED, why)
                self.keep(events.Finished(verdict))
            # The record comes last: whoever sees it may copy or remove the folder.
            run_files.remove_latest(self.paths)
            if self.record is not None and self.record.state.final:
                data = record.to_json(self.record)
                if self.paths.handed.exists():
                    # Another machine may have recorded the run as lost.
                    files.write_once(self.paths.record, data, self._reserved)
                else:
                    files.write(self.paths.record, data)
        self._release()
        for file in self._files.values():
            file.close()

    def keep(self, event: events.Event) -> events.Event:
        """Record an event and return it, an Output with its offset and length.

        Raises:
            OSError: it cannot be written; the record is as it was before.
        """
        at = round(self._start_s + _elapsed_s(), 6)
        if isinstance(event, events.Output):
            self._append(event.stream, event.data)
            offset, length = self._offsets[event.stream], len(event.data)
            self._offsets[event.stream] += length
            event = replace(event, offset=offset, length=length)
        if self.record is None:
            after = record.begin(at, event)
        else:
            after = record.advance(self.record, at, event)
        if isinstance(event, events.Tick):
            run_files.write_latest(self.paths, event, at)
        if not isinstance(event, events.TRANSIENT):
            line = events.to_line(event, at)
            try:
                self._append("events", line)
            except OSError:
                if not isinstance(event, events.Created | events.Finished):
                    raise
                self._append("events", line)  # what was reserved is free now
        self.record = after
        return event

    def _append(self, name: str, data: bytes) -> None:
        """Append all of the data to a file, or nothing of it."""
        file, pending = self._files[name], memoryview(data)
        try:
            while pending:
                pending = pending[file.write(pending) :]
        except OSError as error:
            error.filename = file.name
            with suppress(OSError):
                written = len(data) - len(pending)
                file.truncate(os.fstat(file.fileno()).st_size - written)
            self._release()
            raise

    def _release(self) -> None:
        with suppress(OSError):
            self._reserved.unlink()


def _elapsed_s() -> float:
    # Unlike Linux's monotonic clock this one goes on while a laptop sleeps.
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def read(paths: RunPaths) -> RunRecord | None:
    """Return a run's record, made from its events until there is one.

    None if there is neither, or neither can be read; of a run that waits on a server
    its parcel tells. The folder's name is the run's id,
    even if a user has copied or renamed it.
    """
    found: RunRecord | None
    try:
        name = paths.record.name
        found = record.from_json(files.read_below(paths.root, name, MOST_RECORD_BYTES))
    except (OSError, ValueError):
        try:
            found = record.fold(stamped(paths)) or run_files.waiting_record(paths)
        except OSError:
            return None
    return None if found is None else replace(found, id=paths.id)


def stamped(paths: RunPaths) -> Iterator[tuple[float, events.Event]]:
    """Yield a run's events with their times, up to the last whole line."""
    try:
        with files.open_regular(paths.events) as file:
            for line in files.lines(file, MOST_LINE_BYTES):
                yield events.from_line(line)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return


def names(home: Home) -> set[str]:
    """Return the names of the runs' folders, and of what else is beside them."""
    try:
        # A scan of the types of 100,000 entries would take twice as long.
        found = {name for name in os.listdir(home.runs) if name[0] != "."}  # noqa: PTH208
    except FileNotFoundError:
        return set()
    if files.is_text("/".join(found)):
        return found
    return {name for name in found if files.is_text(name)}  # rai makes no others


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


_MOST_BYTES = 4 * MEASUREMENT_BYTES
"""What is kept is indented, and rai adds to it."""


def measurement_of(paths: RunPaths) -> Measurement | None:
    """Return what a run measured; None if that is nothing, or cannot be read."""
    return files.read_json(paths.measurement, _MOST_BYTES, Measurement)


def measurements(home: Home) -> Iterator[tuple[RunPaths, Measurement]]:
    """Yield the runs that measured a submission, and what they measured."""
    for name in sorted(names(home)):
        paths = home.run(name)
        if (found := measurement_of(paths)) is not None:
            yield paths, found


def measurement_counts(paths: RunPaths) -> bool:
    """Whether a run measured a submission that counts, as `rai ranking` lists it."""
    found = measurement_of(paths)
    return found is not None and found.counts


def keep_measurement(paths: RunPaths, measurement: Measurement) -> None:
    """Write a measurement into a run's folder, so that no reader sees half of it."""
    files.write(paths.measurement, to_json(measurement))
