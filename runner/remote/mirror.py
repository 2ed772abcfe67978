"""The copy of a run on a server, in the run's folder of its client.

Bytes are appended as they come, so a copy that broke off anywhere goes on where its
files end. The server is not trusted: it may make them no longer than the run itself.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Self

import msgspec
from msgspec import Struct

from runner import files
from runner.core.errors import RaiError
from runner.core.units import Moment
from runner.remote.bounds import MirrorBounds
from runner.remote.connection import BodyStream
from runner.remote.problems import shown
from runner.store import latest, seen
from runner.store.paths import RunPaths
from runner.store.runs import MOST_LINE_BYTES
from runner.wire.remote_runs import QueueState, RemoteRun
from runner.wire.tail import (
    EVENTS,
    FILES,
    MOST_HEADER_BYTES,
    STDERR,
    STDOUT,
    TailHeader,
    from_line,
)

PIECE_BYTES = 64 << 10
MOST_SHOWN = 300


class MirroredError(Exception):
    """Another process keeps the copy up to date."""


class BadStreamError(RaiError):
    """The server sent what no run is; what it sent before is kept."""

    def __init__(self, paths: RunPaths, what: str) -> None:
        text = f"the server sent what is no part of run {paths.id}: {what}"
        super().__init__(text, advice="Tell whoever runs the server.")


class Mirror:
    """The writer of a copy, while it holds the lock of the run's folder."""

    def __init__(self, paths: RunPaths, bounds: MirrorBounds) -> None:
        """Lock the folder, and open its files.

        Raises:
            MirroredError: another process has the lock.
        """
        self._paths, self._bounds = paths, bounds
        self._named = {
            path.name: path for path in (paths.events, paths.stdout, paths.stderr)
        }
        with ExitStack() as opened:
            lock = os.open(paths.mirror, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            opened.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise MirroredError from None
            except OSError:
                pass  # a file system without locks: the sizes are compared below
            self._files: dict[str, BinaryIO] = {
                name: opened.enter_context(self._named[name].open("ab", 0))
                for name in FILES
            }
            self._line = bytearray(_open_line(paths.events))
            self._opened = opened.pop_all()
        self._run: RemoteRun | None = None
        self._latest = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def have(self) -> dict[str, int]:
        """The bytes of each file that are here."""
        return {
            name: os.fstat(file.fileno()).st_size for name, file in self._files.items()
        }

    def take(self, body: BodyStream, asked: Mapping[str, int]) -> TailHeader | None:
        """Write what an answer brings; return its header, or None if it broke off.

        ``asked`` is the ``have`` with which it was asked for.

        Raises:
            BadStreamError: the server sent what no run is.
            MirroredError: another process wrote meanwhile.
            OSError: it cannot be written, as on a full disk.
        """
        line = body.readline(MOST_HEADER_BYTES)
        if not line.endswith(b"\n"):
            if len(line) < MOST_HEADER_BYTES:
                return None
            raise self._bad("a header of endless length")
        try:
            header = from_line(line)
        except ValueError as error:
            raise self._bad(str(error)) from error
        if self.have != asked:
            raise MirroredError
        self._note(header)
        whole = all(self._append(name, header.sizes[name], body) for name in FILES)
        return header if whole else None

    def _note(self, header: TailHeader) -> None:
        """Note how the run stands, and what it uses."""
        run = header.run
        if run.id != self._paths.id:
            raise self._bad(f"it speaks of run {run.id}")
        if header.over and run.state is not QueueState.ENDED:
            raise self._bad(f"the end of a run that is {run.state}")
        if run != self._run:
            seen.write(self._paths, run)
            self._run = run
        text = header.latest
        if text != self._latest and len(text) <= latest.LINE_BYTES:
            with suppress(OSError):
                files.write(self._paths.latest, text.encode())
            self._latest = text

    def _append(self, name: str, size: int, body: BodyStream) -> bool:
        """Append so many bytes to a file; return whether all of them came."""
        have = self.have
        most = self._bounds.log_bytes
        if name == EVENTS:
            most = self._bounds.of_events(have[STDOUT] + have[STDERR])
        if have[name] + size > most:
            what = f"over {most:,} bytes of {name}"
            raise self._bad(f"{what}, more than its limits allow")
        while size:
            piece = body.read1(min(size, PIECE_BYTES))
            if not piece:
                return False
            size -= len(piece)
            if name == EVENTS:
                self._check_lines(piece)
            self._write(name, piece)
        return True

    def _write(self, name: str, piece: bytes) -> None:
        pending = memoryview(piece)
        with files.naming(self._named[name]):
            while pending:
                pending = pending[self._files[name].write(pending) :]

    def _check_lines(self, piece: bytes) -> None:
        """Check the lines of events that end in a piece, before it is written."""
        *ended, rest = piece.split(b"\n")
        for end in ended:
            self._line += end
            try:
                _STAMPED.decode(self._line)
            except ValueError as error:
                raise self._bad(f"a line that is no event ({error})") from error
            self._line.clear()
        self._line += rest
        if len(self._line) > MOST_LINE_BYTES:
            raise self._bad(f"an event of over {MOST_LINE_BYTES:,} bytes")

    def _bad(self, what: str) -> BadStreamError:
        return BadStreamError(self._paths, shown(what[:MOST_SHOWN]))


class _Stamped(Struct):
    at: Moment
    event: str


_STAMPED = msgspec.json.Decoder(_Stamped)


def _open_line(path: Path) -> bytes:
    """Return what is there of a last line that has not ended."""
    with files.open_regular(path) as file:
        end = file.seek(0, os.SEEK_END)
        for span in (PIECE_BYTES, 2 * MOST_LINE_BYTES):
            file.seek(max(end - span, 0))
            before, newline, line = file.read(span).rpartition(b"\n")
            if newline or not before or span >= end:
                return line
    return line
