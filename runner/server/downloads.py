"""Routes of a run's files: raw bytes, whole or a range of them, never shown."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import BinaryIO

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from runner.core import Reason
from runner.scheduling.queue import QueueRow
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.bounds import PIECE_BYTES
from runner.server.refusing import nothing, refuse
from runner.server.runs import RunRoutes
from runner.server.threads import Threads
from runner.server.uploadfiles import opened, upload_path
from runner.server.visits import visit_of

PARCEL = "parcel.json"
NAMES = ("events.jsonl", "stdout.log", "stderr.log", "spec.yml", "record.json", PARCEL)
BUILD, SOURCE = "build.tar.zst", "source.tar.zst"
_RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?")


class FileRoutes:
    """The routes."""

    def __init__(
        self, site: Site, threads: Threads, gate: Gate, runs: RunRoutes
    ) -> None:
        self._site, self._threads = site, threads
        self._gate, self._runs = gate, runs

    async def file(self, request: Request) -> FilesAnswer:
        """Answer `GET /api/v1/runs/{id}/files/{name}`."""
        row = await self._row(request)
        name = request.path_params["name"]
        if name not in NAMES:
            raise nothing("file")
        if name == PARCEL and row.parcel:  # of a run that waits there is no folder
            return FilesAnswer(self._threads, row.parcel, (), lambda: None)
        return await self._sent(request, row, name)

    async def build(self, request: Request) -> FilesAnswer:
        """Answer `GET /api/v1/runs/{id}/build`."""
        return await self._sent(request, await self._row(request), BUILD)

    async def source(self, request: Request) -> FilesAnswer:
        """Answer `GET /api/v1/runs/{id}/source`; a waiting run's is the upload."""
        return await self._sent(request, await self._row(request), SOURCE)

    async def _row(self, request: Request) -> QueueRow:
        return await self._runs.reached(request, await self._gate.identity(request))

    async def _sent(self, request: Request, row: QueueRow, name: str) -> FilesAnswer:
        file = await self._threads.runs(self._site.runs.open, row.id, name)
        if file is None and name == SOURCE:
            path = upload_path(self._site.uploads, row.team, row.sha256)
            file = await self._threads.files(opened, path)
        if file is None:
            raise nothing("file")
        close, size = file.close, os.fstat(file.fileno()).st_size
        tag = f'"{row.id}-{name}-{size}"'
        # What is there of a run's file never changes, but there may come more of it.
        asked = request.headers.get("range", "")
        asked = asked if request.headers.get("if-range", tag) == tag else ""
        try:
            found = byte_range(asked, size)
        except ValueError as error:
            close()
            headers = {"Content-Range": f"bytes */{size}"}
            text = str(error)
            raise refuse(Reason.USAGE, text, status=416, headers=headers) from None
        begin, end = found or (0, size)
        headers = {
            "Content-Disposition": f'attachment; filename="{row.id}-{name}"',
            "Accept-Ranges": "bytes",
            "ETag": tag,
        }
        if found:
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        parts = [FilePart(file, begin, end - begin)]
        status = 206 if found else 200
        return FilesAnswer(self._threads, b"", parts, close, status, headers)


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Return begin and end of a range, as a Range header names it (RFC 9110, 14.2).

    None is the whole: for no header, several ranges, or one that cannot be read. Raise
    ValueError for a range that begins behind the end.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if not match:
        return None
    begin = int(match[1])
    end = min(int(match[2]) + 1, size) if match[2] else size
    if match[2] and int(match[2]) < begin:
        return None
    if begin >= end:
        raise ValueError("the range begins behind the end")
    return begin, end


class FilePart(Struct, frozen=True):
    """A part of an open file, in bytes."""

    file: BinaryIO
    at: int
    size: int


class FilesAnswer(StreamingResponse):
    """An answer of bytes and of parts of open files, read as the client takes them."""

    media_type = "application/octet-stream"

    def __init__(
        self,
        threads: Threads,
        head: bytes,
        parts: Sequence[FilePart],
        close: Callable[[], None],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Take what is called at the end, however that comes, to close the files."""
        self._threads, self._close = threads, close
        self._head, self._parts = head, parts
        self._size = len(head) + sum(part.size for part in parts)
        length = {"Content-Length": str(self._size), **(headers or {})}
        super().__init__(self._pieces(), status, length)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; raise ClientDisconnect if it was broken off."""
        visit_of(scope).long = True
        try:
            if scope["method"] == "HEAD":
                head = Response(b"", self.status_code, self.headers)
                await head(scope, receive, send)
            elif self._size <= PIECE_BYTES:
                body = b"".join([piece async for piece in self._pieces()])
                await Response(body, self.status_code, self.headers)(
                    scope, receive, send
                )
            else:
                await super().__call__(scope, receive, send)
        finally:
            self._close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if not self._parts:
            yield self._head
            return
        pieces = _read(self._head, self._parts)
        left = self._size
        while left:
            piece = await self._threads.files(next, pieces)
            left -= len(piece)
            yield piece


def _read(head: bytes, parts: Sequence[FilePart]) -> Iterator[bytes]:
    """Yield all bytes in pieces of PIECE_BYTES; the last is shorter."""
    ready = bytearray(head)
    for part in parts:
        at, end = part.at, part.at + part.size
        while at < end:
            data = os.pread(
                part.file.fileno(), min(PIECE_BYTES - len(ready), end - at), at
            )
            if not data:
                raise OSError("the file was cut while it was sent")
            at += len(data)
            ready += data
            if len(ready) >= PIECE_BYTES:
                yield bytes(ready)
                ready.clear()
    if ready:
        yield bytes(ready)
