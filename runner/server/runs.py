"""Routes of runs and of the queue, which is read from the store once for all."""

from __future__ import annotations

import math
import re
import time
from asyncio import Semaphore
from collections import Counter, defaultdict

import anyio
from msgspec import json
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner.core import Reason, RunRequest
from runner.core.errors import RaiError
from runner.core.quantities import DAY_S
from runner.core.request import to_json
from runner.core.screen import printable
from runner.core.wire import (
    Capacity,
    DrainRequest,
    QueueState,
    QueueView,
    RemoteRun,
    RunPage,
)
from runner.server import bounds, messages
from runner.server.admission import RUN_ID, digest, gpus_admitted
from runner.server.database.accounts import AuditEntry, Identity
from runner.server.decision import queue_view, view
from runner.server.messages import (
    DeniedError,
    answer,
    decoded,
    nothing,
    parsed,
    read,
    refuse,
)
from runner.server.requests import Site
from runner.server.scheduling import QueueRow, Role
from runner.server.uploads import disk_full, free_bytes, quota_text, size_there

LOOK_S = 0.25
SHARE = 4
"""A look at a long queue is followed by a pause of so many times its length."""

FIRST_FACTS_S = 5.0
"""How long a request waits for the first look at engines and GPUs."""

MOST_SHOWN = 1000

MOST_PAGE = 200
MOST_SECRETS = 1000
NOTED_S = 3600.0
MOST_NOTED = 4096
"""Of reading by staff that is asked for again and again one line is enough."""

_LIMIT = re.compile("[0-9]{1,4}")


class QueueSnapshot:
    """The runs that have not ended; ``rows`` has them by id."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.rows: dict[str, QueueRow] = {}
        self.changes = -1
        """The store's count of changes that ``rows`` are of."""

        self._looking = anyio.Lock()

    async def get(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/queue`."""
        return await self._answer(who)

    async def drain(self, request: Request, who: Identity) -> Response:
        """Answer `PUT /api/v1/queue/drain`, for staff."""
        if not who.staff:
            raise refuse(Reason.NOT_ALLOWED, "only staff may drain the queue")
        why = printable((await decoded(request, DrainRequest)).why)
        await run_in_threadpool(self._drain, who, why)
        self._site.wake()
        return await self._answer(who)

    def shown(self, row: QueueRow, who: Identity) -> RemoteRun:
        """Return a run as a team or staff see it, with its place in the queue."""
        standing = self._site.decision().standings.get(row.id)
        return view(row, standing, who.team, staff=who.staff)

    async def facts(self) -> Capacity | None:
        """Return what can run now; None if that is not known yet."""
        with anyio.move_on_after(FIRST_FACTS_S):
            while not (found := await self._site.in_runs(self._site.runs.capacity)):
                await anyio.sleep(LOOK_S)
            return found
        return None

    async def count(self) -> None:
        """Set the figures of the queue and the GPUs."""
        facts = await self.facts()
        await self.look()
        states = Counter(row.state for row in self.rows.values())
        for state in QueueState:
            if state is not QueueState.ENDED:
                self._site.metrics.runs.labels(state.value).set(states[state])
        gpus = sum(not gpu.out for gpu in facts.gpus) if facts else 0
        active = [r for r in self.rows.values() if r.state is not QueueState.WAITING]
        free = max(gpus - sum(row.gpus for row in active), 0)
        self._site.metrics.gpus.labels("free").set(free)
        self._site.metrics.gpus.labels("taken").set(gpus - free)

    async def watch(self) -> None:
        """Look at the store, and rest."""
        began = time.monotonic()
        await self.look()
        await anyio.sleep(SHARE * (time.monotonic() - began))

    async def look(self) -> None:
        """Read the queue if it changed; count the starts and ends since the last look.

        Those before the first look were before this server's start.
        """
        async with self._looking:
            first, before = self.changes < 0, self.rows
            for row in await run_in_threadpool(self._read):
                reason = row.reason or Reason.INTERNAL
                self._site.metrics.ended.labels(reason).inc()
                facts = {"run": row.id, "team": row.team, "why": row.why}
                messages.step("run_ended", reason=reason, **facts)
            for row in () if first or self.rows is before else self.rows.values():
                known = before.get(row.id)
                if row.started_at and not (known and known.started_at):
                    waited_s = max(row.started_at - row.queued_at, 0)
                    self._site.metrics.waited.observe(waited_s)

    def _read(self) -> list[QueueRow]:
        """Read the queue, and return the runs that ended since the last look."""
        # The number first: a change between the two calls is seen the next time.
        store, since = self._site.store, self.changes
        if (changes := store.changes()) == since:
            return []
        rows = {row.id: row for row in store.unfinished()}
        ended = store.ended_between(since, changes) if since >= 0 else []
        self.rows, self.changes = rows, changes
        return ended

    async def _answer(self, who: Identity) -> Response:
        await self.look()
        return await run_in_threadpool(self._view, list(self.rows.values()), who)

    def _view(self, rows: list[QueueRow], who: Identity) -> Response:
        found = queue_view(rows, self._site.decision(), who.team, staff=who.staff)
        return answer(shortened(found))

    def _drain(self, who: Identity, why: str) -> None:
        self._site.store.drain(why)
        act = "drain" if why else "drain off"
        entry = AuditEntry(self._site.now(), f"{who.team}/{who.person}", act, why)
        self._site.store.audit(entry)


def shortened(queue: QueueView) -> QueueView:
    """Return a queue without the many runs of other teams that wait for long."""
    last = [run for run in queue.waiting[MOST_SHOWN:] if run.mine]
    kept = (*queue.waiting[:MOST_SHOWN], *last)
    return replace(queue, waiting=kept, left_out=len(queue.waiting) - len(kept))


def most_gpus(facts: Capacity) -> int | None:
    """Return how many GPUs one run can have: those of the machine, or of a node.

    It is not known of a cluster that has not answered yet. Pure.
    """
    return facts.node_gpus if facts.in_slurm else len(facts.gpus)


class RunRoutes:
    """Routes of runs: asked for, listed, looked at and cancelled."""

    def __init__(self, site: Site, queue: QueueSnapshot) -> None:
        self._site, self._queue = site, queue
        # Counting and adding are two calls of the store, and this is its only server
        # process: without this two requests together would pass a limit.
        self._admitting = anyio.Lock()
        self._reading = defaultdict[str, Semaphore](
            lambda: Semaphore(bounds.READ_OF_TEAM)
        )
        """Of each team, waited for before a body is read, and kept."""

        self._parsing = Semaphore(bounds.PARSED)
        """Waited for before a body that was read is parsed, and used."""

        self._noted: dict[tuple[str, str, str], float] = {}

    async def put(self, request: Request, who: Identity) -> Response:
        """Answer `PUT /api/v1/runs/{id}`."""
        run_id = request.path_params["id"]
        if not RUN_ID.fullmatch(run_id):
            raise refuse(Reason.USAGE, "the id of a run is ten digits of 0-9a-f")
        facts = await self._queue.facts()
        gpus = most_gpus(facts) if facts else None
        async with self._reading[who.team]:
            body = await read(request, bounds.MOST_RUN_BODY)
            async with self._parsing:
                kept, new = await self._asked(who, run_id, body, gpus)
        if new:
            self._site.wake()
            messages.step("run_queued", run=run_id, team=kept.team, gpus=kept.gpus)
        return answer(self._queue.shown(kept, who), 201 if new else 200)

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

    async def page(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/runs`."""
        query = request.query_params
        after, text = query.get("after", ""), query.get("limit", "100")
        if (after and not RUN_ID.fullmatch(after)) or not _LIMIT.fullmatch(text):
            raise refuse(Reason.USAGE, "`after` is a run's id, `limit` a number")
        try:
            state = QueueState(query["state"]) if query.get("state") else None
        except ValueError:
            raise refuse(Reason.USAGE, "`state` is no state of a run") from None
        limit = min(max(int(text), 1), MOST_PAGE)
        team: str | None = who.team
        if query.get("all"):
            if not who.staff:
                raise refuse(Reason.NOT_ALLOWED, "only staff see the runs of all teams")
            await self.note(who, "list", "the runs of all teams")
            team = None
        rows = await run_in_threadpool(self._site.store.runs, team, state, after, limit)
        shown = tuple(self._queue.shown(row, who) for row in rows)
        following = rows[-1].id if len(rows) == limit else ""
        return answer(RunPage(shown, following))

    async def get(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/runs/{id}`."""
        return answer(self._queue.shown(await self.reached(request, who), who))

    async def cancel(self, request: Request, who: Identity) -> Response:
        """Answer `DELETE /api/v1/runs/{id}`.

        That a run shall end is in the store first: where its worker cannot be told
        now, the feeder does so later.
        """
        store, row = self._site.store, await self.reached(request, who)
        own = (row.team, row.person) == (who.team, who.person)
        if not own and not who.staff:
            text = f"{row.id} is {row.person}'s run"
            hint = f"ask {row.person} or staff to cancel it"
            raise refuse(Reason.NOT_ALLOWED, text, hint=hint)
        if row.submission is not None and not who.staff:
            one = await run_in_threadpool(store.submission, row.submission)
            if one is not None and one.rerun_of is not None:
                text = f"staff have submission {one.rerun_of} measured again by it"
                raise refuse(Reason.NOT_ALLOWED, text, hint="ask them to cancel it")
        if row.state is not QueueState.ENDED:
            if not own:
                await self.note(who, "cancel", _about(row), once=False)
            why, now = f"cancelled by {who.person}", self._site.now()
            asked = await run_in_threadpool(store.ask_cancel, row.id, now, why)
            row = asked or row
            messages.step("cancel", run=row.id, team=row.team, person=who.person)
            if row.state is not QueueState.ENDED:
                try:
                    await self._site.in_runs(self._site.runs.cancel, row.id)
                except RaiError as error:
                    messages.step("unable", run=row.id, why=str(error))
            self._site.wake()
        return answer(self._queue.shown(row, who), 202)

    async def reached(self, request: Request, who: Identity) -> QueueRow:
        """Return the run that a request names, of its own team; staff reach all.

        That staff read another team's run is kept among their acts.
        """
        name, row = request.path_params["id"], None
        if RUN_ID.fullmatch(name):
            row = await run_in_threadpool(self._site.store.run, name)
        if row is None or (row.team != who.team and not who.staff):
            raise nothing("run")
        if row.team != who.team:
            await self.note(who, "read", _about(row))
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
            raise _later(text, now + bounds.WAIT_S)
        if role.a_day is not None and use.queued_since >= role.a_day:
            text = (
                f"your team asked for {use.queued_since} runs in 24 hours, and may for"
                f" {role.a_day}"
            )
            raise _later(text, (use.oldest_since or now) + DAY_S)
        if use.bytes > role.disk_bytes:
            text = quota_text(use.bytes, role)
            raise _later(text, now + bounds.WAIT_S)
        if free_bytes(self._site.uploads) < self._site.rules.low_disk_bytes:
            raise disk_full(now)
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
