"""Routes of a run's files: downloaded whole or in ranges, or followed as they grow."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import BinaryIO

from msgspec import DecodeError, Struct, json
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from runner.core import Reason, Stream
from runner.core.milestone import Trust
from runner.core.wire import (
    EVENTS,
    FILES,
    LEAST_S,
    LONGEST_WAIT_S,
    MOST_TAIL_BYTES,
    STDERR,
    STDOUT,
    QueueState,
    TailHeader,
    to_line,
)
from runner.server.bounds import (
    LATEST_S,
    LINES_BYTES,
    LOOK_S,
    MOST_LATEST_BYTES,
    PIECE_BYTES,
    QUIET_LOOK_S,
)
from runner.server.database.accounts import Identity
from runner.server.messages import nothing, refuse
from runner.server.paths import upload_path
from runner.server.requests import Site, context_of
from runner.server.runs import QueueSnapshot, RunRoutes
from runner.server.scheduling import QueueRow
from runner.system import files

PARCEL = "parcel.json"
NAMES = ("events.jsonl", "stdout.log", "stderr.log", "spec.yml", "record.json", PARCEL)
BUILD, SOURCE = "build.tar.zst", "source.tar.zst"
_RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?")

LATEST = "latest.json"
_NUMBER = re.compile("[0-9]{1,15}")

Sizes = Mapping[str, int]
"""Bytes of each file of FILES: what there is of it, or what a follower has."""


class FileRoutes:
    """Routes of the files of a run that has begun, and of the project of any."""

    def __init__(self, site: Site, runs: RunRoutes) -> None:
        self._site, self._runs = site, runs

    async def file(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/runs/{id}/files/{name}`."""
        if (name := request.path_params["name"]) not in NAMES:
            raise nothing("file")
        return await self._sent(request, who, name)

    async def build(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/runs/{id}/build`."""
        return await self._sent(request, who, BUILD)

    async def source(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/runs/{id}/source`; a waiting run's is the upload."""
        return await self._sent(request, who, SOURCE)

    async def _sent(self, request: Request, who: Identity, name: str) -> Response:
        row = await self._runs.reached(request, who)
        if name == SOURCE and row.submission is not None and not who.staff:
            one = await self._site.in_files(self._site.store.submission, row.submission)
            if one is None or one.trust is Trust.TIMED:
                text = "it holds the files of the assignment's staff"
                raise refuse(Reason.NOT_ALLOWED, text)
        if name == PARCEL and row.parcel:  # of a run that waits there is no folder
            return FilesAnswer(self._site, row.parcel, (), lambda: None)
        file = await self._site.in_runs(self._site.runs.open, row.id, name)
        if file is None and name == SOURCE:
            path = upload_path(self._site.uploads, row.team, row.sha256)
            with suppress(OSError):
                file = await self._site.in_files(files.open_regular, path)
        if file is None:
            raise nothing("file")
        size = os.fstat(file.fileno()).st_size
        # What is there of a run's file never changes, but there may come more of it.
        found = byte_range(request.headers.get("range", ""), size)
        begin, end = found or (0, size)
        if found and begin >= end:
            file.close()
            headers = {"Content-Range": f"bytes */{size}"}
            text = "the range begins behind the end"
            raise refuse(Reason.USAGE, text, status=416, headers=headers)
        headers = {
            "Content-Disposition": f'attachment; filename="{row.id}-{name}"',
            "Accept-Ranges": "bytes",
        }
        if found:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        parts = [FilePart(file, begin, end - begin)]
        status = 206 if found else 200
        return FilesAnswer(self._site, b"", parts, file.close, status, headers)


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Return begin and end of a range, as a Range header names it (RFC 9110, 14.2).

    None is the whole: for no header, several ranges, or one that cannot be read. One
    that begins behind the end of the file has its end before its begin, or there.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if not match or (match[2] and int(match[2]) < int(match[1])):
        return None
    return int(match[1]), min(int(match[2]) + 1, size) if match[2] else size


class FilePart(Struct, frozen=True):
    """A part of an open file, in bytes."""

    file: BinaryIO
    at: int
    size: int


class FilesAnswer(StreamingResponse):
    """An answer of bytes and of parts of open files, read as the client takes them.

    Starlette's FileResponse sends a file to its end, and these files grow meanwhile.
    """

    media_type = "application/octet-stream"

    def __init__(
        self,
        site: Site,
        head: bytes,
        parts: Sequence[FilePart],
        close: Callable[[], None],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take what is called at the end, however that comes, to close the files."""
        self._site, self._close = site, close
        self._data = _read(head, parts)
        self._size = len(head) + sum(part.size for part in parts)
        length = {"Content-Length": str(self._size), **(headers or {})}
        super().__init__(self._pieces(), status, length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; raise ClientDisconnect if it was broken off."""
        context_of(scope).long = True
        answer = super().__call__
        try:
            if scope["method"] == "HEAD":
                answer = Response(b"", self.status_code, self.headers)
            elif self._size <= PIECE_BYTES:  # by one call of a thread, and no task
                body = await self._site.in_files(b"".join, self._data)
                answer = Response(body, self.status_code, self.headers)
            await answer(scope, receive, send)
        finally:
            self._close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        while piece := await self._site.in_files(lambda: next(self._data, b"")):
            yield piece


def _read(head: bytes, parts: Sequence[FilePart]) -> Iterator[bytes]:
    """Yield all bytes in pieces of at most PIECE_BYTES, but for the head."""
    if head:
        yield head
    for part in parts:
        at, end = part.at, part.at + part.size
        while at < end:
            data = os.pread(part.file.fileno(), min(PIECE_BYTES, end - at), at)
            if not data:
                raise OSError("the file was cut while it was sent")
            at += len(data)
            yield data


class TailRoute:
    """The route by which a client follows a run."""

    def __init__(self, site: Site, runs: RunRoutes, queue: QueueSnapshot) -> None:
        self._site, self._runs, self._queue = site, runs, queue

    async def tail(self, request: Request, who: Identity) -> FilesAnswer:
        """Answer `GET /api/v1/runs/{id}/tail`."""
        query = request.query_params
        asked = {name: query.get(name.partition(".")[0], "0") for name in FILES}
        wait = query.get("wait", "0")
        if not all(map(_NUMBER.fullmatch, (*asked.values(), wait))):
            text = "`events`, `stdout`, `stderr` and `wait` are numbers"
            raise refuse(Reason.USAGE, text)
        row = self._queue.rows.get(request.path_params["id"])
        if row is None or row.team != who.team:
            row = await self._runs.reached(request, who)
        context = context_of(request)
        context.long = context.frequent = True
        at = {name: int(size) for name, size in asked.items()}
        with ExitStack() as opened:
            run = _FollowedRun(row, who, self._site, self._queue)
            opened.callback(run.close)
            self._site.metrics.followers.inc()
            try:
                await _news(run, at, min(int(wait), LONGEST_WAIT_S), request)
                header, parts = await run.step(at)
            finally:
                self._site.metrics.followers.dec()
            close = opened.pop_all().close
            return FilesAnswer(self._site, to_line(header), parts, close)


async def _news(run: _FollowedRun, at: Sizes, wait_s: int, request: Request) -> None:
    """Wait until there is something to tell: at once where there is much, or an end."""
    began = time.monotonic()
    gone = asyncio.create_task(_gone(request))
    try:
        await run.look()
        first = run.standing
        while not run.ended:
            news = run.sizes[EVENTS] > at[EVENTS] or run.standing != first
            least_s = LEAST_S if news else max(wait_s, LEAST_S)
            waited_s = time.monotonic() - began
            if run.much(at) or waited_s >= least_s:
                return
            look_s = LOOK_S if waited_s < 1 else QUIET_LOOK_S
            await asyncio.wait({gone}, timeout=look_s)
            if gone.done():
                raise ClientDisconnect
            await run.look()
    finally:
        gone.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class _FollowedRun:
    """A run while one request waits for what is new of it; its files stay open.

    ``sizes`` is how much there is of each, ``standing`` what else is worth telling.
    """

    def __init__(
        self, row: QueueRow, who: Identity, site: Site, queue: QueueSnapshot
    ) -> None:
        self._row, self._site, self._queue = row, site, queue
        self._who = who
        self._files: dict[str, BinaryIO] = {}
        self._latest, self._opened_at, self._over = "", float("-inf"), False
        self._shown = queue.shown(row, who)
        self.sizes: Sizes = dict.fromkeys(FILES, 0)

    @property
    def ended(self) -> bool:
        """Whether it has ended, so that its files grow no more."""
        return self._row.state is QueueState.ENDED

    @property
    def standing(self) -> tuple[object, ...]:
        """How it stands, but for the estimate of its start, which always changes."""
        run = self._shown
        queue = run.state, run.ahead, run.why, run.cancelled, run.started_at
        return *queue, self._latest

    async def look(self) -> None:
        """Look at it: whether it has ended first, and then at its files."""
        row = self._queue.rows.get(self._row.id)
        if row is None and not self.ended:
            # It has ended, or the queue has not seen it yet.
            row = await run_in_threadpool(self._site.store.run, self._row.id)
        self._row = row or self._row
        self._shown = self._queue.shown(self._row, self._who)
        if self._row.state is not QueueState.WAITING:
            await self._refresh()
        # The logs last: what a line of events speaks of was written before the line.
        self.sizes = {name: self._size(name) for name in reversed(FILES)}

    def much(self, at: Sizes) -> bool:
        """Whether a follower who has so much lacks more than comes in one answer.

        Output comes only with the events that speak of it.
        """
        if self.sizes[EVENTS] <= at[EVENTS] and not self.ended:
            return False
        lacking = sum(max(self.sizes[name] - at[name], 0) for name in FILES)
        return lacking >= MOST_TAIL_BYTES

    async def step(self, at: Sizes) -> tuple[TailHeader, list[FilePart]]:
        """Return the next answer for a follower who has so much."""
        after = dict(at)
        if any(self.sizes[name] > at[name] for name in FILES):
            after = await self._site.in_files(self._reach, at)
        sizes = {name: after[name] - at[name] for name in FILES}
        whole = all(after[name] >= self.sizes[name] for name in FILES)
        more = after[EVENTS] < self.sizes[EVENTS] or (self.ended and not whole)
        over, build = self.ended and whole, None
        if over:
            build = await self._site.in_files(self._build_size)
        header = TailHeader(
            self._shown,
            sizes[STDOUT],
            sizes[STDERR],
            sizes[EVENTS],
            latest=self._latest,
            more=more and any(sizes.values()),
            over=over,
            build=build,
        )
        parts = [
            FilePart(self._files[name], at[name], sizes[name])
            for name in FILES
            if sizes[name]
        ]
        return header, parts

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    async def _refresh(self) -> None:
        """Open the files again every second, and once the run has ended.

        A network file system tells what another machine wrote as a file is opened. On
        this machine a file that is not there yet is looked for at each look.
        """
        if self._over:
            return
        due = time.monotonic() - self._opened_at >= LATEST_S
        soon = len(self._files) < len(FILES) and not self._site.decision().room.in_slurm
        if due or soon or self.ended:
            await self._site.in_files(self._open)
            self._over = self.ended

    def _open(self) -> None:
        """Open the files that are there by now, and read what the run uses."""
        self._opened_at = time.monotonic()
        for name in FILES:
            found = self._site.runs.open(self._row.id, name)
            if found and self._files.setdefault(name, found) != found:
                found.close()
        running = self._row.state is QueueState.RUNNING
        if running and (found := self._site.runs.open(self._row.id, LATEST)):
            with found:
                data = found.read(MOST_LATEST_BYTES + 1)
            if len(data) <= MOST_LATEST_BYTES:
                self._latest = data.decode(errors="ignore")

    def _size(self, name: str) -> int:
        file = self._files.get(name)
        return os.fstat(file.fileno()).st_size if file else 0

    def _reach(self, at: Sizes) -> dict[str, int]:
        lines, room = b"", min(self.sizes[EVENTS] - at[EVENTS], LINES_BYTES)
        if room > 0:
            lines = os.pread(self._files[EVENTS].fileno(), room, at[EVENTS])
        return reach(at, self.sizes, lines, over=self.ended)

    def _build_size(self) -> int | None:
        if (found := self._site.runs.open(self._row.id, BUILD)) is None:
            return None
        with found:
            return os.fstat(found.fileno()).st_size


def reach(at: Sizes, sizes: Sizes, lines: bytes, *, over: bool) -> dict[str, int]:
    """Return how much a follower has after the next answer.

    ``at`` is what it has, ``sizes`` what there is, and ``lines`` the events that it
    lacks, or LINES_BYTES of them. The lines are taken in their order, as many as fit
    with the output that they speak of; so both get on however much is printed. A line
    whose output is not there yet waits, and so does half a line, unless the run is
    ``over``: then all that is left is sent. Pure.
    """
    ends, left = dict(at), MOST_TAIL_BYTES
    whole = lines[: lines.rfind(b"\n") + 1]
    if not whole and (over or len(lines) >= LINES_BYTES):
        whole = lines  # a line so long is of no output, and goes in pieces
    for line in whole.splitlines(keepends=True):
        log, _, end = output_of(line)
        if log and end > sizes[log] and not over:
            break
        more = max(min(end, sizes[log]) - ends[log], 0) if log else 0
        if more + len(line) > left:
            if left == MOST_TAIL_BYTES:
                ends[log] += min(more, left)  # too much for one answer
            break
        if log:
            ends[log] += more
        ends[EVENTS] += len(line)
        left -= more + len(line)
    if over and ends[EVENTS] >= sizes[EVENTS]:
        for log in (STDOUT, STDERR):
            more = max(min(sizes[log] - ends[log], left), 0)
            ends[log], left = ends[log] + more, left - more
    return ends


class _Line(Struct):
    """What of a line of events tells which output it speaks of."""

    event: str
    stream: Stream | None = None
    offset: int = 0
    length: int = 0


_decoder = json.Decoder(_Line)


def output_of(line: bytes) -> tuple[str, int, int]:
    """Return the file that a line of events speaks of, and where in it; "" for none."""
    if b'"Output"' not in line:
        return "", 0, 0
    try:
        found = _decoder.decode(line)
    except DecodeError:
        return "", 0, 0
    if found.event != "Output" or found.stream is None:
        return "", 0, 0
    log = STDOUT if found.stream is Stream.STDOUT else STDERR
    return log, found.offset, found.offset + found.length
