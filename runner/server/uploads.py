"""Routes of uploads: a packed project whole, known by its team and its SHA-256."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import Request
from starlette.responses import Response

from runner import files
from runner.core import MIB, Problem, Reason
from runner.core.units import DAY_S
from runner.database.accounts import Identity
from runner.server import bounds, logs
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.bodies import announced, pieces
from runner.server.metrics import Metrics
from runner.server.rates import TryCounter
from runner.server.refusing import DeniedError, nothing, refuse
from runner.server.threads import Threads
from runner.server.uploadfiles import (
    SHA256,
    Arriving,
    free_bytes,
    size_there,
    upload_path,
)
from runner.server.visits import visit_of

LOOK_AGAIN_BYTES = 16 * MIB
"""After so many bytes of an upload the free disk is looked at again."""

LOW_DISK_S = 60.0
_SIZE = re.compile("[0-9]{1,15}")


class UploadRoutes:
    """The routes.

    Each request writes a file of its own, aside, so that no two of the same file wait
    for each other; the one that is whole first gives it its name.
    """

    def __init__(
        self, site: Site, threads: Threads, gate: Gate, metrics: Metrics
    ) -> None:
        self._site, self._threads, self._gate = site, threads, gate
        self._metrics = metrics
        # One at a time, so that two requests together do not pass a quota.
        self._admitting = anyio.Lock()
        self._new = TryCounter(
            bounds.UPLOADS_AT_ONCE, bounds.UPLOADS_REFILL_S, bounds.MOST_ADDRESSES
        )
        self._coming: Counter[str] = Counter()
        self._coming_bytes: Counter[str] = Counter()

    async def get(self, request: Request) -> Response:
        """Answer `GET /api/v1/uploads/{sha256}?size=`: whether it is there.

        With a size one learns at once why a file of that size would not be taken.
        """
        identity, sha256 = await self._asked(request)
        store = self._threads.store
        if await store(size_there, self._site, identity.team, sha256) is None:
            if _SIZE.fullmatch(size := request.query_params.get("size", "")):
                await store(self._admit, identity, sha256, int(size))
            raise nothing("upload")
        return Response(status_code=204)

    async def put(self, request: Request) -> Response:
        """Answer `PUT /api/v1/uploads/{sha256}`, whose body is the whole file."""
        identity, sha256 = await self._asked(request)
        if not (size := announced(request)):
            text = "an upload has a Content-Length, which is not 0"
            raise refuse(Reason.USAGE, text, status=411)
        visit_of(request).long = True
        async with self._admitted(identity, sha256, size):
            file = await self._threads.files(Arriving, self._site.uploads)
            try:
                await self._receive(request, file)
                await self._keep(identity, sha256, file)
            except OSError as error:
                raise self._full() if error.errno in files.FULL else error from error
            finally:
                with anyio.CancelScope(shield=True):
                    await self._threads.files(file.drop)
        return Response(status_code=201)

    async def _asked(self, request: Request) -> tuple[Identity, str]:
        identity = await self._gate.identity(request)
        sha256: str = request.path_params["sha256"]
        if not SHA256.fullmatch(sha256):
            text = "an upload is named by its SHA-256, 64 digits in lower case"
            raise refuse(Reason.USAGE, text)
        return identity, sha256

    @asynccontextmanager
    async def _admitted(
        self, identity: Identity, sha256: str, size: int
    ) -> AsyncIterator[None]:
        """Count an upload while it comes; refuse one that its team may not send."""
        team = identity.team
        async with self._admitting:
            await self._threads.store(self._admit, identity, sha256, size)
            if retry_at := self._new.take(team, self._site.now()):
                text = "your team began too many uploads"
                raise refuse(Reason.RATE_LIMIT, text, retry_at=retry_at)
            self._coming[team] += 1
            self._coming_bytes[team] += size
        try:
            yield
        finally:
            self._coming -= Counter({team: 1})  # which drops those of none
            self._coming_bytes -= Counter({team: size})

    async def _receive(self, request: Request, file: Arriving) -> None:
        held, looked = bytearray(), 0
        async for piece in pieces(request):
            held += piece
            if len(held) >= bounds.PIECE_BYTES:
                await self._append(file, held)
                if file.size - looked >= LOOK_AGAIN_BYTES:
                    looked = file.size
                    await self._threads.files(self._room, 0)
        await self._append(file, held)

    async def _append(self, file: Arriving, held: bytearray) -> None:
        await self._threads.files(file.append, bytes(held))
        self._metrics.uploaded(len(held))
        held.clear()

    async def _keep(self, identity: Identity, sha256: str, file: Arriving) -> None:
        """Add the row of an upload to the store, then rename its file into place.

        A row without its file counts as nothing, and a file without its row would be
        found by nobody.
        """
        if file.sha256 != sha256:
            text = "what was sent does not have the SHA-256 that it is named by"
            raise refuse(Reason.USAGE, text, status=422, hint="send it again")
        team = identity.team
        now, store = self._site.now(), self._site.store
        await self._threads.files(file.sync)
        await self._threads.store(store.add_upload, team, sha256, file.size, now)
        path = upload_path(self._site.uploads, team, sha256)
        await self._threads.files(file.name_it, path)
        logs.step("upload_whole", team=team, sha256=sha256, bytes=file.size)

    def _admit(self, identity: Identity, sha256: str, size: int) -> None:
        """Refuse a file that its role, its team's quota or the disk has no room for."""
        if self._coming[identity.team] >= bounds.UPLOADS_OF_TEAM:
            text = f"{bounds.UPLOADS_OF_TEAM} uploads of your team are under way"
            raise refuse(Reason.BUSY, text, hint="wait until some have ended")
        known = size_there(self._site, identity.team, sha256)
        if known is None:
            self._quota(identity, size)
        elif known != size:
            raise refuse(Reason.USAGE, f"{sha256} has {known} bytes", status=422)
        self._room(size)

    def _quota(self, identity: Identity, size: int) -> None:
        role = self._site.rules.role(identity.role)
        if size > role.upload_bytes:
            text = (
                f"the packed project takes {_mib(size)}, and the role"
                f" `{role.name}` of this server allows {_mib(role.upload_bytes)}"
            )
            raise _too_large(text, "leave large files out by a .raiignore")
        used = self._site.store.use(identity.team, self._site.now() - DAY_S).bytes
        used += self._coming_bytes[identity.team]
        if used + size > role.disk_bytes:
            text = (
                f"your team's uploads and runs take {_mib(used)} here, and may take"
                f" {_mib(role.disk_bytes)}"
            )
            raise _too_large(text, "older runs are removed with time, or by your staff")

    def _room(self, more: int) -> None:
        """Refuse what does not leave enough of the disk free."""
        if free_bytes(self._site.uploads) - more < self._site.rules.low_disk_bytes:
            raise self._full()

    def _full(self) -> DeniedError:
        text = "the server has too little free disk to take more"
        retry_at = self._site.now() + LOW_DISK_S
        return refuse(Reason.BUSY, text, retry_at=retry_at)


def _too_large(text: str, hint: str) -> DeniedError:
    return refuse(Reason.NOT_ALLOWED, Problem(text, hint=hint), status=413)


def _mib(size: int) -> str:
    return f"{size / MIB:,.1f} MiB"
