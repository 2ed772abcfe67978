"""Routes of a run's files: raw bytes, whole or a range of them, never shown."""

from __future__ import annotations

import os
import re

from starlette.requests import Request

from runner.core import Reason
from runner.database.base import RunRow
from runner.jobhost.base import OpenedFile
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.bounds import PIECE_BYTES
from runner.server.refusing import nothing, refuse
from runner.server.runs import RunRoutes
from runner.server.streaming import Pour, StreamAnswer
from runner.server.threads import Threads
from runner.server.uploadfiles import opened, upload_path

NAMES = ("events.jsonl", "stdout.log", "stderr.log", "spec.yml", "record.json")
BUILD, SOURCE = "build.tar.zst", "source.tar.zst"
_RANGE = re.compile(r"bytes=(?:([0-9]{1,15})-([0-9]{1,15})?|-([0-9]{1,15}))")


class FileRoutes:
    """The routes."""

    def __init__(
        self, site: Site, threads: Threads, gate: Gate, runs: RunRoutes
    ) -> None:
        self._site, self._threads = site, threads
        self._gate, self._runs = gate, runs

    async def file(self, request: Request) -> StreamAnswer:
        """Answer `GET /api/v1/runs/{id}/files/{name}`."""
        row = await self._row(request)
        name = request.path_params["name"]
        if name not in NAMES:
            raise nothing("file")
        return await self._sent(request, row, name)

    async def build(self, request: Request) -> StreamAnswer:
        """Answer `GET /api/v1/runs/{id}/build`."""
        return await self._sent(request, await self._row(request), BUILD)

    async def source(self, request: Request) -> StreamAnswer:
        """Answer `GET /api/v1/runs/{id}/source`; a waiting run's is the upload."""
        return await self._sent(request, await self._row(request), SOURCE)

    async def _row(self, request: Request) -> RunRow:
        return await self._runs.own(request, await self._gate.identity(request))

    async def _sent(self, request: Request, row: RunRow, name: str) -> StreamAnswer:
        file = await self._threads.host(self._site.host.open, row.id, name)
        if file is None and name == SOURCE:
            path = upload_path(self._site.uploads, row.team, row.sha256)
            file = await self._threads.files(opened, path)
        if file is None:
            raise nothing("file")
        try:
            return _answer(request, file, f"{row.id}-{name}", self._threads)
        except BaseException:
            file.handle.close()
            raise


def byte_range(text: str, size: int) -> tuple[int, int] | None:
    """Return begin and end of a range, as a Range header names it (RFC 9110, 14.2).

    None is the whole: for no header, several ranges, or one that cannot be read. Raise
    ValueError for a range that begins behind the end.
    """
    match = _RANGE.fullmatch(text.replace(" ", ""))
    if not match:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        begin, end = max(size - int(suffix), 0), size
    else:
        begin = int(first)
        end = min(int(last) + 1, size) if last else size
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise ValueError("the range begins behind the end")
    return begin, end


def _answer(
    request: Request, file: OpenedFile, name: str, threads: Threads
) -> StreamAnswer:
    """Return a file, or the part that is asked for, as it was when it was opened."""
    size = file.size
    asked = request.headers.get("range", "")
    # What is there of a run's file never changes, but there may be more of it later.
    condition = request.headers.get("if-range", "")
    tag = f'"{name}-{size}"'
    try:
        found = byte_range(asked, size) if condition in ("", tag) else None
    except ValueError as error:
        headers = {"Content-Range": f"bytes */{size}"}
        raise refuse(Reason.USAGE, str(error), status=416, headers=headers) from None
    begin, end = found or (0, size)
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(end - begin),
        "Content-Disposition": f'attachment; filename="{name}"',
        "Accept-Ranges": "bytes",
        "ETag": tag,
    }
    if found:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"

    async def pours(pour: Pour) -> None:
        handle, at = file.handle.fileno(), begin
        while at < end:
            most = min(PIECE_BYTES, end - at)
            data = await threads.files(os.pread, handle, most, at)
            if not data:
                raise OSError("the file was cut while it was sent")
            at += len(data)
            await pour(data)

    status = 206 if found else 200
    return StreamAnswer(pours, status, headers, file.handle.close)
