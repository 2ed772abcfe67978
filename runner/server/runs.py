"""Routes of runs: asking for one, looking at it, ending it."""

from __future__ import annotations

import math
import re

import anyio
from msgspec import json
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner.core import MIB, Reason, RunRequest
from runner.core.errors import RaiError
from runner.core.request import to_json
from runner.core.screen import printable
from runner.core.units import DAY_S
from runner.database.accounts import AuditEntry, Identity
from runner.scheduling.queue import QueueRow, Role
from runner.server import bounds, logs
from runner.server.admission import RUN_ID, digest, gpus_admitted
from runner.server.messages import (
    DeniedError,
    Turns,
    answer,
    nothing,
    parsed,
    read,
    refuse,
)
from runner.server.queue import QueueSnapshot
from runner.server.requests import Site
from runner.server.uploads import free_bytes, size_there
from runner.wire.remote_runs import QueueState, RunPage

MOST_PAGE = 200
MOST_SECRETS = 1000
WAIT_S = 60.0
"""When to try again after too many waiting runs: nothing tells when one starts."""

NOTED_S = 3600.0
MOST_NOTED = 4096
"""Of reading by staff that is asked for again and again one line is enough."""

_LIMIT = re.compile("[0-9]{1,4}")


class RunRoutes:
    """The routes."""

    def __init__(self, site: Site, queue: QueueSnapshot) -> None:
        self._site, self._queue = site, queue
        # Counting and adding are two calls of the store, and this is its only server
        # process: without this two requests together would pass a limit.
        self._admitting = anyio.Lock()
        self._turns = Turns()
        self._noted: dict[tuple[str, str, str], float] = {}

    async def put(self, request: Request) -> Response:
        """Answer `PUT /api/v1/runs/{id}`."""
        identity = await self._site.identify(request)
        run_id = request.path_params["id"]
        if not RUN_ID.fullmatch(run_id):
            raise refuse(Reason.USAGE, "the id of a run is ten digits of 0-9a-f")
        gpus = await self._queue.most_gpus()
        async with self._turns.reading(identity.team):
            body = await read(request, bounds.MOST_RUN_BODY)
            async with self._turns.parsing:
                kept, new = await self._asked(identity, run_id, body, gpus)
        if new:
            self._site.wake()
            logs.step("run_queued", run=run_id, team=kept.team, gpus=kept.gpus)
        return answer(self._queue.shown(kept, identity), 201 if new else 200)

    async def _asked(
        self, identity: Identity, run_id: str, body: bytes, gpus: int | None
    ) -> tuple[QueueRow, bool]:
        """Return the run that a body asks for, and whether it is new."""
        asked = parsed(body, RunRequest)
        store = run_in_threadpool
        if len(asked.secret.values) > MOST_SECRETS:
            raise refuse(Reason.USAGE, f"more than {MOST_SECRETS:,} secrets")
        key = await store(digest, asked)
        if found := await store(self._site.store.run, run_id):
            return self._same(found, identity, key), False
        role = self._site.rules.role(identity.role)
        gpus = await store(gpus_admitted, asked, role, gpus)
        if await store(size_there, self._site, identity.team, asked.upload) is None:
            text = "the server does not have the packed project of this run"
            raise refuse(Reason.USAGE, text, status=404, hint="send it again")
        row = QueueRow(
            id=run_id,
            team=identity.team,
            person=identity.person,
            role=identity.role,
            digest=key,
            sha256=asked.upload,
            parcel=to_json(asked.kept),
            queued_at=self._site.now(),
            project=printable(asked.project),
            gpus=gpus,
            priority=role.priority,
            secrets=json.encode(asked.secret).decode(),
        )
        async with self._admitting:
            kept, new = await store(self._added, row, role, identity)
        return (kept if new else self._same(kept, identity, key)), new

    async def page(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs`."""
        identity = await self._site.identify(request)
        query = request.query_params
        after, text = query.get("after", ""), query.get("limit", "100")
        if (after and not RUN_ID.fullmatch(after)) or not _LIMIT.fullmatch(text):
            raise refuse(Reason.USAGE, "`after` is a run's id, `limit` a number")
        try:
            state = QueueState(query["state"]) if query.get("state") else None
        except ValueError:
            raise refuse(Reason.USAGE, "`state` is no state of a run") from None
        limit = min(max(int(text), 1), MOST_PAGE)
        team: str | None = identity.team
        if query.get("all"):
            if not identity.staff:
                raise refuse(Reason.NOT_ALLOWED, "only staff see the runs of all teams")
            await self.note(identity, "list", "the runs of all teams")
            team = None
        rows = await run_in_threadpool(self._site.store.runs, team, state, after, limit)
        shown = tuple(self._queue.shown(row, identity) for row in rows)
        following = rows[-1].id if len(rows) == limit else ""
        return answer(RunPage(shown, following))

    async def get(self, request: Request) -> Response:
        """Answer `GET /api/v1/runs/{id}`."""
        identity = await self._site.identify(request)
        row = await self.reached(request, identity)
        return answer(self._queue.shown(row, identity))

    async def cancel(self, request: Request) -> Response:
        """Answer `DELETE /api/v1/runs/{id}`.

        That a run shall end is in the store first: where its worker cannot be told
        now, the feeder does so later.
        """
        identity = await self._site.identify(request)
        row = await self.reached(request, identity)
        own = (row.team, row.person) == (identity.team, identity.person)
        if not own and not identity.staff:
            text = f"{row.id} is {row.person}'s run"
            hint = f"ask {row.person} or staff to cancel it"
            raise refuse(Reason.NOT_ALLOWED, text, hint=hint)
        if row.submission is not None and not identity.staff:
            store = self._site.store
            one = await run_in_threadpool(store.submission, row.submission)
            if one is not None and one.rerun_of is not None:
                text = f"staff have submission {one.rerun_of} measured again by it"
                raise refuse(Reason.NOT_ALLOWED, text, hint="ask them to cancel it")
        if row.state is not QueueState.ENDED:
            if not own:
                await self.note(identity, "cancel", _about(row), once=False)
            why = f"cancelled by {identity.person}"
            asked = await run_in_threadpool(
                self._site.store.ask_cancel, row.id, self._site.now(), why
            )
            row = asked or row
            logs.step("cancel", run=row.id, team=row.team, person=identity.person)
            if row.state is not QueueState.ENDED:
                try:
                    await self._site.in_runs(self._site.runs.cancel, row.id)
                except RaiError as error:
                    logs.step("unable", run=row.id, why=str(error))
            self._site.wake()
        return answer(self._queue.shown(row, identity), 202)

    async def reached(self, request: Request, identity: Identity) -> QueueRow:
        """Return the run that a request names, of its own team; staff reach all.

        That staff read another team's run is kept among their acts.
        """
        name = request.path_params["id"]
        row = None
        if RUN_ID.fullmatch(name):
            row = await run_in_threadpool(self._site.store.run, name)
        if row is None or (row.team != identity.team and not identity.staff):
            raise nothing("run")
        if row.team != identity.team:
            await self.note(identity, "read", _about(row))
        return row

    async def note(
        self, who: Identity, act: str, about: str, *, once: bool = True
    ) -> None:
        """Keep an act of staff; with ``once`` at most one such line an hour."""
        now, key = self._site.now(), (who.token_id, act, about)
        if once and 0 <= now - self._noted.get(key, -math.inf) < NOTED_S:
            return
        entry = AuditEntry(now, f"{who.team}/{who.person}", act, about)
        await run_in_threadpool(self._site.store.audit, entry)
        self._noted[key] = now
        while len(self._noted) > MOST_NOTED:
            self._noted.pop(next(iter(self._noted)))

    def _same(self, row: QueueRow, identity: Identity, key: str) -> QueueRow:
        """Return a run that is there already, if it is the one that is asked for."""
        if row.team != identity.team or row.digest != key:
            text = "another run has this id"
            raise refuse(Reason.USAGE, text, status=409, hint="ask for a new run")
        return row

    def _added(self, row: QueueRow, role: Role, who: Identity) -> tuple[QueueRow, bool]:
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
        added = store.add_run(row)
        # Who revokes a login ends the runs that are there; others learn of it later.
        if not store.valid(who.token_id, self._site.now()):
            store.ask_cancel(row.id, now, "the login ended")
            raise refuse(Reason.NOT_ALLOWED, "the token was revoked", status=401)
        return added


def _about(row: QueueRow) -> str:
    return f"run {row.id} of {row.team}/{row.person}"


def _later(text: str, retry_at: float) -> DeniedError:
    return refuse(Reason.RATE_LIMIT, text, retry_at=retry_at)
