"""Routes of uploads, and their files: a packed project that a team sends whole.

An upload is known by its team and its SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner.core import MIB, Reason
from runner.core.quantities import DAY_S
from runner.server import bounds, messages
from runner.server.bounds import TryCounter
from runner.server.database import Store
from runner.server.database.accounts import Identity
from runner.server.messages import DeniedError, announced, nothing, pieces, refuse
from runner.server.paths import SHA256, arriving_folder, upload_path
from runner.server.requests import Site, context_of
from runner.server.scheduling import Role
from runner.system import files

LOOK_AGAIN_BYTES = 16 * MIB
"""After so many bytes of an upload the free disk is looked at again."""

_SIZE = re.compile("[0-9]{1,15}")


class UploadRoutes:
    """Routes of uploads.

    Each request writes a file of its own, aside, so that no two of the same file wait
    for each other; the one that is whole first gives it its name.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        # One at a time, so that two requests together do not pass a quota.
        self._admitting = anyio.Lock()
        self._new = TryCounter(bounds.UPLOADS_AT_ONCE, bounds.UPLOADS_REFILL_S)
        self._coming = defaultdict[str, list[int]](list)
        """Sizes of the uploads of each team that are under way."""

    async def get(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/uploads/{sha256}?size=&submission=`: whether it is there.

        With a size one learns at once why a file of that size would not be taken. For a
        submission there is room a while longer.
        """
        sha256 = _named(request)
        known = await run_in_threadpool(size_there, self._site, who.team, sha256)
        if known is None:
            if _SIZE.fullmatch(size := request.query_params.get("size", "")):
                final = _final(request)
                await run_in_threadpool(self._admit, who, sha256, int(size), final)
            raise nothing("upload")
        return Response(status_code=204)

    async def put(self, request: Request, who: Identity) -> Response:
        """Answer `PUT /api/v1/uploads/{sha256}`, whose body is the whole file."""
        sha256 = _named(request)
        if not (size := announced(request)):
            text = "an upload has a Content-Length, which is not 0"
            raise refuse(Reason.USAGE, text, status=411)
        context_of(request).long = True
        async with self._admitted(who, sha256, size, _final(request)):
            file = await self._site.in_files(ArrivingFile, self._site.uploads)
            try:
                await self._receive(request, file)
                await self._keep(who.team, sha256, file)
            except OSError as error:
                full = error.errno in files.FULL
                raise disk_full(self._site.now()) if full else error from error
            finally:
                with anyio.CancelScope(shield=True):
                    await self._site.in_files(file.drop)
        return Response(status_code=201)

    @asynccontextmanager
    async def _admitted(
        self, identity: Identity, sha256: str, size: int, final: bool
    ) -> AsyncIterator[None]:
        """Count an upload while it comes; refuse one that its team may not send."""
        team = identity.team
        async with self._admitting:
            await run_in_threadpool(self._admit, identity, sha256, size, final)
            if retry_at := self._new.take(team, self._site.now()):
                text = "your team began too many uploads"
                raise refuse(Reason.RATE_LIMIT, text, retry_at=retry_at)
            self._coming[team].append(size)
        try:
            yield
        finally:
            self._coming[team].remove(size)

    async def _receive(self, request: Request, file: ArrivingFile) -> None:
        held, looked = bytearray(), 0
        async for piece in pieces(request):
            held += piece
            if len(held) >= bounds.PIECE_BYTES:
                await self._site.in_files(file.append, bytes(held))
                held.clear()
                if file.size - looked >= LOOK_AGAIN_BYTES:
                    looked = file.size
                    await self._site.in_files(self._room, 0, _final(request))
        await self._site.in_files(file.append, bytes(held))
        self._site.metrics.uploaded.inc(file.size)

    async def _keep(self, team: str, sha256: str, file: ArrivingFile) -> None:
        """Add the row of an upload to the store, then rename its file into place.

        A row without its file counts as nothing, and a file without its row would be
        found by nobody.
        """
        if file.digest.hexdigest() != sha256:
            text = "what was sent does not have the SHA-256 that it is named by"
            raise refuse(Reason.USAGE, text, status=422, hint="send it again")
        await self._site.in_files(file.sync)
        now, add = self._site.now(), self._site.store.add_upload
        await run_in_threadpool(add, team, sha256, file.size, now)
        path = upload_path(self._site.uploads, team, sha256)
        await self._site.in_files(file.name_it, path)
        messages.step("upload_whole", team=team, sha256=sha256, bytes=file.size)

    def _admit(self, identity: Identity, sha256: str, size: int, final: bool) -> None:
        """Refuse a file that its role, its team's quota or the disk has no room for."""
        if len(self._coming[identity.team]) >= bounds.UPLOADS_OF_TEAM:
            text = f"{bounds.UPLOADS_OF_TEAM} uploads of your team are under way"
            raise refuse(Reason.BUSY, text, hint="wait until some have ended")
        known = size_there(self._site, identity.team, sha256)
        if known is None:
            self._quota(identity, size, final)
        elif known != size:
            raise refuse(Reason.USAGE, f"{sha256} has {known} bytes", status=422)
        self._room(size, final)

    def _quota(self, who: Identity, size: int, final: bool) -> None:
        role, team = self._site.rules.role(who.role), who.team
        used = self._site.store.use(team, self._site.now() - DAY_S).bytes
        used += sum(self._coming[team])
        most = role.disk_bytes + (role.upload_bytes if final else 0)
        if size > role.upload_bytes:
            hint = "leave large files out by a .raiignore"
            text = (
                f"the packed project takes {_mib(size)}, and the role"
                f" `{role.name}` of this server allows {_mib(role.upload_bytes)}"
            )
        elif used + size > most:
            hint = "older runs are removed with time, or by your staff"
            text = quota_text(used, role)
        else:
            return
        raise refuse(Reason.NOT_ALLOWED, text, status=413, hint=hint)

    def _room(self, more: int, final: bool) -> None:
        """Refuse what does not leave enough of the disk free."""
        least = self._site.rules.least_free(submission=final)
        if free_bytes(self._site.uploads) - more < least:
            raise disk_full(self._site.now())


def _named(request: Request) -> str:
    sha256: str = request.path_params["sha256"]
    if not SHA256.fullmatch(sha256):
        text = "an upload is named by its SHA-256, 64 digits in lower case"
        raise refuse(Reason.USAGE, text)
    return sha256


def _final(request: Request) -> bool:
    """Whether an upload is to be a submission."""
    return "submission" in request.query_params


def _mib(size: int) -> str:
    """Return a size for people."""
    return f"{size / MIB:,.1f} MiB"


def quota_text(used: int, role: Role) -> str:
    """Return that a team's files take more than its role allows."""
    return (
        f"your team's uploads and runs take {_mib(used)} here, and may take"
        f" {_mib(role.disk_bytes)}"
    )


def disk_full(now: float) -> DeniedError:
    """Return the refusal of what the disk has no room for."""
    text = "the server has too little free disk to take more"
    return refuse(Reason.BUSY, text, retry_at=now + bounds.WAIT_S)


def size_there(site: Site, team: str, sha256: str) -> int | None:
    """Return the size of a team's upload; to ask keeps it from being removed soon.

    The folder of a run that holds the files of an assignment's staff is none: a run of
    the team's own would show them.
    """
    if site.store.holds_staff(team, sha256):
        return None
    size = site.store.upload(team, sha256, site.now())
    try:
        facts = upload_path(site.uploads, team, sha256).lstat()
    except FileNotFoundError:
        return None
    whole = stat.S_ISREG(facts.st_mode) and facts.st_size == size
    return size if whole else None


def free_bytes(uploads: Path) -> int:
    """Return what is free on the disk of the uploads."""
    uploads.mkdir(mode=0o700, parents=True, exist_ok=True)
    return shutil.disk_usage(uploads).free


class ArrivingFile:
    """A file that is being received: aside, until all of it is there."""

    def __init__(self, uploads: Path) -> None:
        folder = arriving_folder(uploads)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder)
        self._file, self._path = os.fdopen(handle, "wb"), Path(name)
        self.digest = hashlib.sha256()
        self.size = 0

    def append(self, data: bytes) -> None:
        """Write data at the end."""
        self._file.write(data)
        self.digest.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Have all of it on the disk; raise OSError where there is no room for it."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def name_it(self, path: Path) -> None:
        """Rename it to its path, durably.

        Another file there has the same bytes, or is damaged.
        """
        path.parent.mkdir(mode=0o700, exist_ok=True)
        self._path.rename(path)
        for folder in (path.parent, path.parent.parent):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def drop(self) -> None:
        """Close it; without a name it is gone."""
        with suppress(OSError):  # of a full disk, which was told before
            self._file.close()
        self._path.unlink(missing_ok=True)


def keep(store: Store, uploads: Path, team: str, packed: Path, now: float) -> str:
    """Keep a file as a team's upload, durably; return its SHA-256."""
    file = ArrivingFile(uploads)
    try:
        with packed.open("rb") as source:
            while piece := source.read(MIB):
                file.append(piece)
        file.sync()
        sha256 = file.digest.hexdigest()
        store.add_upload(team, sha256, file.size, now)
        file.name_it(upload_path(uploads, team, sha256))
    finally:
        file.drop()
    return sha256
