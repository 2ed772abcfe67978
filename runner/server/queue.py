"""The queue as it is now, read from the store once for all who ask, and its routes."""

from __future__ import annotations

import time
from collections import Counter

import anyio
from msgspec import json
from msgspec.structs import replace
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner.core import Reason
from runner.core.screen import printable
from runner.database.accounts import AuditEntry, Identity
from runner.scheduling.decision import queue_view, view
from runner.scheduling.queue import QueueRow
from runner.server import logs
from runner.server.messages import decoded, refuse
from runner.server.requests import Site
from runner.wire import JSON
from runner.wire.capacity import Capacity
from runner.wire.remote_runs import DrainRequest, QueueState, QueueView, RemoteRun

LOOK_S = 0.25
SHARE = 4
"""A look at a long queue is followed by a pause of so many times its length."""

FIRST_FACTS_S = 5.0
"""How long a request waits for the first look at engines and GPUs."""

MOST_SHOWN = 1000


class QueueSnapshot:
    """The runs that have not ended; ``rows`` has them by id."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.rows: dict[str, QueueRow] = {}
        self._changes = -1
        self._looking = anyio.Lock()

    async def get(self, request: Request) -> Response:
        """Answer `GET /api/v1/queue`."""
        return await self._answer(await self._site.identify(request))

    async def drain(self, request: Request) -> Response:
        """Answer `PUT /api/v1/queue/drain`, for staff."""
        identity = await self._site.identify(request)
        if not identity.staff:
            raise refuse(Reason.NOT_ALLOWED, "only staff may drain the queue")
        why = printable((await decoded(request, DrainRequest)).why)
        await run_in_threadpool(self._drain, identity, why)
        self._site.wake()
        return await self._answer(identity)

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

    async def most_gpus(self) -> int | None:
        """Return how many GPUs one run can have; None if that is not known."""
        facts = await self.facts()
        return most_gpus(facts) if facts else None

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
            first, before = self._changes < 0, self.rows
            for row in await run_in_threadpool(self._read):
                reason = row.reason or Reason.INTERNAL
                self._site.metrics.ended.labels(reason).inc()
                facts = {"run": row.id, "team": row.team, "why": row.why}
                logs.step("run_ended", reason=reason, **facts)
            for row in () if first or self.rows is before else self.rows.values():
                known = before.get(row.id)
                if row.started_at and not (known and known.started_at):
                    waited_s = max(row.started_at - row.queued_at, 0)
                    self._site.metrics.waited.observe(waited_s)

    def _read(self) -> list[QueueRow]:
        """Read the queue, and return the runs that ended since the last look."""
        # The number first: a change between the two calls is seen the next time.
        store, since = self._site.store, self._changes
        if (changes := store.changes()) == since:
            return []
        rows = {row.id: row for row in store.unfinished()}
        ended = store.ended_between(since, changes) if since >= 0 else []
        self.rows, self._changes = rows, changes
        return ended

    async def _answer(self, asks: Identity) -> Response:
        await self.look()
        body = await run_in_threadpool(self._view, list(self.rows.values()), asks)
        return Response(body, media_type=JSON)

    def _view(self, rows: list[QueueRow], asks: Identity) -> bytes:
        decision = self._site.decision()
        found = queue_view(rows, decision, asks.team, staff=asks.staff)
        return json.encode(shortened(found))

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
