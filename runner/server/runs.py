"""Routes of runs: asking for one, looking at it, ending it."""

from __future__ import annotations

import re

import anyio
from msgspec import json
from starlette.requests import Request
from starlette.responses import Response

from runner.core import MIB, Reason
from runner.core.errors import BusyError
from runner.core.parcel import to_json
from runner.core.screen import printable
from runner.core.units import DAY_S
from runner.database.base import Identity, RunRow, UploadRow
from runner.scheduling.roles import Role
from runner.server import bounds, logs
from runner.server.admission import RUN_ID, Admitted, admitted, digest
from runner.server.auth import Gate
from runner.server.base import RunSecrets, Site
from runner.server.board import Board
from runner.server.bodies import answer, parsed, read
from runner.server.intake import Intake
from runner.server.refusing import DeniedError, nothing, refuse
from runner.server.threads import Threads
from runner.server.uploadfiles import free_bytes, size_of, upload_path
from runner.server.visits import visit_of
from runner.wire.remote_runs import QueueState, RunPage, RunRequest

MOST_PAGE = 200
MOST_SECRETS = 1000
WAIT_S = 60.0
"""When to try again after too many waiting runs: nothing tells when one starts."""

_LIMIT = re.compile("[0-9]{1,4}")


class RunRoutes:
    """The routes."""

    def __init__(self, site: Site, threads: Threads, gate: Gate, board: Board) -> None:
        self._site, self._threads = site, threads
        self._gate, self._board = gate, board
        # Counting and adding are two calls of the store, and this is its only server
        # process: without this two requests together would pass a limit.
        self._admitting = anyio.Lock()
        self._intake = Intake()

    async def put(self, request: Request) -> Response:
        """Answer `PUT /api/v1/runs/{id}`."""
        identity = await self._gate.identity(request)
        run_id = request.path_params["id"]
        if not RUN_ID.fullmatch(run_id):
            raise refuse(Reason.USAGE, "the id of a run is ten digits of 0-9a-f")
        gpus = await self._board.host_gpus()
        async with self._intake.reading(identity.team):
            body = await read(request, bounds.MOST_RUN_BODY)
            visit_of(request).run = run_id
            async with self._intake.parsing():
                kept, new = await self._asked(identity, run_id, body, gpus)
        if new:
            self._site.wake()
            logs.step("run_queued", run=run_id, team=kept.team, gpus=kept.gpus)
        shown = self._board.shown(kept, identity.team)
        return answer(shown, 201 if new else 200)

    async def _asked(
        self, identity: Identity, run_id: str, body: bytes, gpus: int | None
    ) -> tuple[RunRow, bool]:
        """Return the run that a body asks for, and whether it is new."""
        asked = parsed(body, RunRequest)
        store = self._threads.store
        if len(asked.secrets) > MOST_SECRETS:
            raise refuse(Reason.USAGE, f"more than {MOST_SECRETS:,} secrets")
        key = await store(digest, asked)
        if found := await store(self._site.store.run, run_id):
            return self._same(found, identity, key), False
        role = self._site.rules.role(identity.role)
        what = await store(admitted, asked, role, gpus)
        upload = await store(self._upload, identity, asked.upload)
        row = _row(run_id, identity, asked, key, role, what, upload, self._site.now())
        async with self._admitting:
            kept, new = await store(self._added, row, role)
        return (kept if new else self._same(kept, identity, key)), new

    async def page(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs`."""
        identity = await self._gate.identity(request)
        query = request.query_params
        after, text = query.get("after", ""), query.get("limit", "100")
        if (after and not RUN_ID.fullmatch(after)) or not _LIMIT.fullmatch(text):
            raise refuse(Reason.USAGE, "`after` is a run's id, `limit` a number")
        try:
            state = QueueState(query["state"]) if query.get("state") else None
        except ValueError:
            raise refuse(Reason.USAGE, "`state` is no state of a run") from None
        limit = min(max(int(text), 1), MOST_PAGE)
        rows = await self._threads.store(
            self._site.store.runs, identity.team, state, after, limit
        )
        shown = tuple(self._board.shown(row, identity.team) for row in rows)
        following = rows[-1].id if len(rows) == limit else ""
        return answer(RunPage(shown, following))

    async def get(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs/{id}`."""
        identity = await self._gate.identity(request)
        row = await self.own(request, identity)
        return answer(self._board.shown(row, identity.team))

    async def cancel(self, request: Request) -> Response:
        """Answer `DELETE /api/v1/runs/{id}`.

        That a run shall end is in the store first: if the host does not answer now,
        the feeder tells it later.
        """
        identity = await self._gate.identity(request)
        row = await self.own(request, identity)
        if row.state is not QueueState.ENDED:
            why = f"cancelled by {identity.person}"
            asked = await self._threads.store(
                self._site.store.ask_cancel, row.id, self._site.now(), why
            )
            row = asked or row
            logs.step("cancel", run=row.id, team=row.team, person=identity.person)
            if row.state is not QueueState.ENDED:
                try:
                    await self._threads.host(self._site.host.cancel, row.id)
                except BusyError as error:
                    logs.step("unable", run=row.id, why=str(error))
            self._site.wake()
        return answer(self._board.shown(row, identity.team), 202)

    async def own(self, request: Request, identity: Identity) -> RunRow:
        """Return the run that a request names; of its own team only."""
        name = request.path_params["id"]
        row = None
        if RUN_ID.fullmatch(name):
            row = await self._threads.store(self._site.store.run, name)
        if row is None or row.team != identity.team:
            raise nothing("run")
        visit_of(request).run = row.id
        return row

    def _same(self, row: RunRow, identity: Identity, key: str) -> RunRow:
        """Return a run that is there already, if it is the one that is asked for."""
        if row.team != identity.team or row.digest != key:
            text = "another run has this id"
            raise refuse(Reason.USAGE, text, status=409, hint="ask for a new run")
        return row

    def _upload(self, identity: Identity, name: str) -> UploadRow:
        """Return an upload that is whole, and whose file is there."""
        # PostgreSQL takes no text with a NUL.
        known = name.isascii() and name.isalnum()
        row = self._site.store.upload(identity.team, name) if known else None
        if row is None:
            raise nothing("upload")
        path = upload_path(self._site.uploads, row.team, row.sha256)
        if not row.whole or size_of(path) != row.size:
            text = "the packed project is not here as a whole"
            raise refuse(Reason.USAGE, text, status=409, hint="send the rest of it")
        return row

    def _added(self, row: RunRow, role: Role) -> tuple[RunRow, bool]:
        """Add a run within its team's quotas; return the run of this id if there is."""
        store, now = self._site.store, row.queued_at
        if found := store.run(row.id):
            return found, False
        use = store.use(row.team, now - DAY_S)
        if use.waiting >= role.waiting:
            text = f"{use.waiting} runs of your team wait, and {role.waiting} may"
            raise _later(text, now + WAIT_S)
        if role.a_day is not None and use.queued_since >= role.a_day:
            text = (
                f"your team asked for {use.queued_since} runs in 24 hours, and may for"
                f" {role.a_day}"
            )
            raise _later(text, (use.oldest_since or now) + DAY_S)
        if use.bytes > role.disk_bytes:
            text = (
                f"your team's uploads and runs take {use.bytes / MIB:,.1f} MiB here,"
                f" and may take {role.disk_bytes / MIB:,.1f} MiB"
            )
            raise _later(text, now + WAIT_S)
        if free_bytes(self._site.uploads) < self._site.rules.low_disk_bytes:
            text = "the server has too little free disk to take more"
            raise refuse(Reason.BUSY, text, retry_at=now + WAIT_S)
        return store.add_run(row)


def _later(text: str, retry_at: float) -> DeniedError:
    return refuse(Reason.RATE_LIMIT, text, retry_at=retry_at)


def _row(
    run_id: str,
    identity: Identity,
    asked: RunRequest,
    key: str,
    role: Role,
    what: Admitted,
    upload: UploadRow,
    now: float,
) -> RunRow:
    kept = RunSecrets(asked.spec_text, asked.secrets)
    return RunRow(
        id=run_id,
        team=identity.team,
        person=identity.person,
        role=identity.role,
        digest=key,
        upload=upload.id,
        sha256=upload.sha256,
        parcel=to_json(asked.parcel),
        queued_at=now,
        project=printable(asked.parcel.project),
        engine=asked.engine,
        gpus=what.gpus,
        priority=role.priority,
        secrets=json.encode(kept).decode(),
    )
