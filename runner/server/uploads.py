"""Routes of uploads: a packed project in pieces, which a broken connection keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
from starlette.requests import Request
from starlette.responses import Response

from runner.core import MIB, Problem, Reason
from runner.core.units import DAY_S
from runner.database.base import Identity, UploadRow
from runner.server import bounds, logs
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.bodies import announced, answer, decoded, pieces
from runner.server.metrics import Metrics
from runner.server.rates import TryCounter
from runner.server.refusing import BUSY_S, DeniedError, nothing, refuse
from runner.server.threads import Threads
from runner.server.uploadfiles import (
    SHA256,
    UploadFile,
    free_bytes,
    size_of,
    upload_id,
    upload_path,
)
from runner.server.visits import visit_of
from runner.wire import UPLOAD_OFFSET
from runner.wire.uploads import UploadRequest, UploadState

WHOLE = "X-Rai-Whole"
_ID = re.compile("[0-9a-f]{24}")
_OFFSET = re.compile("[0-9]{1,15}")
LOOK_AGAIN_BYTES = 16 * MIB
"""After so many bytes of an upload the free disk is looked at again."""

LOW_DISK_S = 60.0


class UploadRoutes:
    """The routes."""

    def __init__(
        self, site: Site, threads: Threads, gate: Gate, metrics: Metrics
    ) -> None:
        self._site, self._threads, self._gate = site, threads, gate
        self._metrics = metrics
        self._writing: set[str] = set()
        # One at a time, so that two requests together do not pass a quota.
        self._admitting = anyio.Lock()
        self._new = TryCounter(
            bounds.UPLOADS_AT_ONCE, bounds.UPLOADS_REFILL_S, bounds.MOST_ADDRESSES
        )

    async def create(self, request: Request) -> Response:
        """Answer `POST /api/v1/uploads`."""
        identity = await self._gate.identity(request)
        asked = await decoded(request, UploadRequest, bounds.MOST_SMALL_BODY)
        if not SHA256.fullmatch(asked.sha256) or asked.size < 1:
            text = "an upload has a SHA-256, as 64 digits in lower case, and a size"
            raise refuse(Reason.USAGE, text)
        async with self._admitting:
            row, new = await self._threads.store(self._admitted, identity, asked)
        if new:
            return answer(self._state(row, 0), 201)
        have = await self._threads.files(size_of, self._path(row))
        if have == row.size and not row.whole and row.id not in self._writing:
            with self._alone(row):
                row = await self._ended(row, await self._threads.files(self._open, row))
        return answer(self._state(row, have))

    async def offset(self, request: Request) -> Response:
        """Answer `HEAD /api/v1/uploads/{id}`."""
        row = await self._row(request)
        have = await self._threads.files(size_of, self._path(row))
        state = self._state(row, have)
        headers = {UPLOAD_OFFSET: str(state.offset), WHOLE: str(int(state.whole))}
        return Response(headers=headers)

    async def append(self, request: Request) -> Response:
        """Answer `PATCH /api/v1/uploads/{id}`: what comes from Upload-Offset on."""
        row = await self._row(request)
        given = request.headers.get(UPLOAD_OFFSET, "")
        if not _OFFSET.fullmatch(given):
            raise refuse(Reason.USAGE, f"the header {UPLOAD_OFFSET} is no number")
        at, more = int(given), announced(request)
        if at + (more or 0) > row.size:
            raise _too_much(row)
        visit_of(request).long = True
        with self._alone(row):
            file = await self._threads.files(self._open, row)
            try:
                if file.size != at:
                    raise _other_offset(file.size)
                if not (row.whole and at == row.size):
                    row = await self._received(request, row, file)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._threads.files(file.__exit__, None, None, None)
        return answer(self._state(row, file.size))

    async def _received(
        self, request: Request, row: UploadRow, file: UploadFile
    ) -> UploadRow:
        """Write what comes; the store knows how much, however the body ends."""
        try:
            await self._write(request, row, file)
        finally:
            if file.size < row.size:
                with anyio.CancelScope(shield=True):
                    await self._threads.store(self._grew, row, file.size, False)
        if file.size < row.size:
            return row
        return await self._checked(row, file)

    async def _write(self, request: Request, row: UploadRow, file: UploadFile) -> None:
        held, looked = bytearray(), -LOOK_AGAIN_BYTES
        try:
            async for piece in pieces(request):
                if file.size + len(held) + len(piece) > row.size:
                    raise _too_much(row)
                held += piece
                if len(held) < bounds.PIECE_BYTES:
                    continue
                if file.size - looked >= LOOK_AGAIN_BYTES:
                    looked = file.size
                    await self._threads.files(self._room, 0)
                await self._keep(held, file)
        finally:  # of a connection that broke, too, all that came is kept
            with anyio.CancelScope(shield=True):
                await self._keep(held, file)

    async def _keep(self, held: bytearray, file: UploadFile) -> None:
        data = bytes(held)
        held.clear()
        if data:
            await self._threads.files(file.append, data)
            self._metrics.uploaded(len(data))

    async def _ended(self, row: UploadRow, file: UploadFile) -> UploadRow:
        """Check an upload all of which came before."""
        try:
            return await self._checked(row, file)
        finally:
            with anyio.CancelScope(shield=True):
                await self._threads.files(file.__exit__, None, None, None)

    async def _checked(self, row: UploadRow, file: UploadFile) -> UploadRow:
        if not await self._threads.files(file.has, row.sha256):
            await self._threads.files(file.empty)
            await self._threads.store(self._grew, row, 0, False)
            text = "what was sent does not have the SHA-256 that was announced"
            raise refuse(Reason.USAGE, text, status=422, hint="send it again")
        await self._threads.store(self._grew, row, row.size, True)
        logs.step("upload_whole", team=row.team, upload=row.id, bytes=row.size)
        return UploadRow(
            row.id, row.team, row.sha256, row.size, row.size, True, self._site.now()
        )

    async def _row(self, request: Request) -> UploadRow:
        """Return the upload that a request names; its own team's only."""
        identity = await self._gate.identity(request)
        name = request.path_params["id"]
        row = None
        if _ID.fullmatch(name):
            row = await self._threads.store(
                self._site.store.upload, identity.team, name
            )
        if row is None:
            raise nothing("upload")
        return row

    @contextmanager
    def _alone(self, row: UploadRow) -> Iterator[None]:
        """Be the only one that writes an upload."""
        if row.id in self._writing:
            text = "another request writes this upload"
            retry_at = self._site.now() + BUSY_S
            raise refuse(Reason.BUSY, text, status=423, retry_at=retry_at)
        self._writing.add(row.id)
        try:
            yield
        finally:
            self._writing.discard(row.id)

    def _admitted(
        self, identity: Identity, asked: UploadRequest
    ) -> tuple[UploadRow, bool]:
        """Return the upload of a file, and whether it is new."""
        store, now = self._site.store, self._site.now()
        role = self._site.rules.role(identity.role)
        team, one = identity.team, upload_id(identity.team, asked.sha256)
        found = store.upload(team, one)
        if found and found.size == asked.size:
            # That it is asked for keeps it from being removed as stale.
            store.upload_grew(one, found.offset, now, whole=found.whole)
            return found, False
        if found:
            text = f"this file was announced with {found.size:,} bytes before"
            raise refuse(Reason.USAGE, text, status=409)
        if asked.size > role.upload_bytes:
            text = (
                f"the packed project takes {_mib(asked.size)}, and the role"
                f" `{role.name}` of this server allows {_mib(role.upload_bytes)}"
            )
            hint = "leave large files out by a .raiignore"
            raise refuse(Reason.NOT_ALLOWED, Problem(text, hint=hint), status=413)
        used = store.use(team, now - DAY_S).bytes
        if used + asked.size > role.disk_bytes:
            text = (
                f"your team's uploads and runs take {_mib(used)} here, and may take"
                f" {_mib(role.disk_bytes)}"
            )
            hint = "older runs are removed with time, or by your staff"
            raise refuse(Reason.NOT_ALLOWED, Problem(text, hint=hint), status=413)
        if retry_at := self._new.take(team, now):
            text = "your team began too many uploads"
            raise refuse(Reason.RATE_LIMIT, text, retry_at=retry_at)
        self._room(asked.size)
        row = UploadRow(one, team, asked.sha256, asked.size, 0, False, now)
        return store.add_upload(row), True

    def _room(self, more: int) -> None:
        """Refuse what does not leave enough of the disk free."""
        low = self._site.rules.low_disk_bytes
        if free_bytes(self._site.uploads) - more < low:
            text = "the server has too little free disk to take more"
            retry_at = self._site.now() + LOW_DISK_S
            raise refuse(Reason.BUSY, text, retry_at=retry_at)

    def _grew(self, row: UploadRow, offset: int, whole: bool) -> None:
        self._site.store.upload_grew(row.id, offset, self._site.now(), whole=whole)

    def _open(self, row: UploadRow) -> UploadFile:
        file = UploadFile(self._path(row))
        if file.size > row.size:  # it is not what we wrote
            file.empty()
        return file

    def _path(self, row: UploadRow) -> Path:
        return upload_path(self._site.uploads, row.team, row.sha256)

    def _state(self, row: UploadRow, have: int) -> UploadState:
        whole = row.whole and have == row.size
        return UploadState(row.id, row.sha256, row.size, min(have, row.size), whole)


def _other_offset(have: int) -> DeniedError:
    headers = {UPLOAD_OFFSET: str(have)}
    text = f"the server has {have:,} bytes of it"
    return refuse(Reason.USAGE, text, status=409, headers=headers)


def _too_much(row: UploadRow) -> DeniedError:
    text = f"more than the {row.size:,} bytes that were announced"
    return refuse(Reason.USAGE, text, status=413)


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
