"""Routes of a run's files: raw bytes, whole or a range of them, never shown."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from runner import files
from runner.core import Reason
from runner.core.milestone import Trust
from runner.server.bounds import PIECE_BYTES
from runner.server.messages import nothing, refuse
from runner.server.paths import upload_path
from runner.server.requests import Site, context_of
from runner.server.runs import RunRoutes

PARCEL = "parcel.json"
NAMES = ("events.jsonl", "stdout.log", "stderr.log", "spec.yml", "record.json", PARCEL)
BUILD, SOURCE = "build.tar.zst", "source.tar.zst"
_RANGE = re.compile(r"bytes=([0-9]{1,15})-([0-9]{1,15})?")


class FileRoutes:
    """The routes."""

    def __init__(self, site: Site, runs: RunRoutes) -> None:
        self._site, self._runs = site, runs

    async def file(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs/{id}/files/{name}`."""
        return await self._sent(request, request.path_params["name"], NAMES)

    async def build(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs/{id}/build`."""
        return await self._sent(request, BUILD)

    async def source(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs/{id}/source`; a waiting run's is the upload."""
        return await self._sent(request, SOURCE)

    async def _sent(
        self, request: Request, name: str, names: Sequence[str] = (BUILD, SOURCE)
    ) -> Response:
        identity = await self._site.identify(request)
        row = await self._runs.reached(request, identity)
        if name == SOURCE and row.submission is not None and not identity.staff:
            one = await self._site.in_files(self._site.store.submission, row.submission)
            if one is None or one.trust is Trust.TIMED:
                text = "it holds the files of the assignment's staff"
                raise refuse(Reason.NOT_ALLOWED, text)
        if name not in names:
            raise nothing("file")
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
