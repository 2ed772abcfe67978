"""The queue as it is now, read from the store once for all who ask."""

from __future__ import annotations

import time
from collections import Counter

import anyio
from msgspec import json
from msgspec.structs import replace

from runner.core import Reason
from runner.database.base import Identity, QueueRow
from runner.scheduling.views import queue_view, view
from runner.server import logs
from runner.server.base import Site
from runner.server.metrics import Metrics
from runner.server.threads import Threads
from runner.wire.capacity import Capacity
from runner.wire.remote_runs import QueueState, QueueView, RemoteRun

LOOK_S = 0.25
SHARE = 4
"""A look at a long queue is followed by a pause of so many times its length."""

FIRST_FACTS_S = 5.0
"""How long a request waits for the first look at engines and GPUs."""

MOST_SHOWN = 1000


class Board:
    """The runs that have not ended, by id."""

    def __init__(self, site: Site, threads: Threads, metrics: Metrics) -> None:
        self._site, self._threads, self._metrics = site, threads, metrics
        self.rows: dict[str, QueueRow] = {}
        self._changes, self._read = -1, False
        self._looking = anyio.Lock()

    def shown(self, row: QueueRow, who: Identity) -> RemoteRun:
        """Return a run as a team or staff see it, with its place in the queue."""
        standing = self._site.decision().standings.get(row.id)
        return view(row, standing, who.team, staff=who.staff)

    async def queue(self, asks: Identity) -> bytes:
        """Return the queue as somebody sees it, as JSON of a QueueView."""
        await self.look()
        return await self._threads.store(self._queue, list(self.rows.values()), asks)

    def _queue(self, rows: list[QueueRow], asks: Identity) -> bytes:
        decision = self._site.decision()
        found = queue_view(rows, decision, asks.team, staff=asks.staff)
        return json.encode(shortened(found))

    async def facts(self) -> Capacity | None:
        """Return what can run now; None if that is not known yet."""
        with anyio.move_on_after(FIRST_FACTS_S):
            while not (found := await self._threads.runs(self._site.runs.capacity)):
                await anyio.sleep(LOOK_S)
            return found
        return None

    async def most_gpus(self) -> int | None:
        """Return how many GPUs one run can have; None if that is not known."""
        facts = await self.facts()
        return most_gpus(facts) if facts else None

    async def figures(self) -> None:
        """Set the figures of the queue and the GPUs."""
        facts = await self.facts()
        await self.look()
        states = Counter(row.state for row in self.rows.values())
        gpus = [gpu for gpu in facts.gpus if not gpu.out] if facts else []
        active = [r for r in self.rows.values() if r.state is not QueueState.WAITING]
        taken = sum(row.gpus for row in active)
        free = max(len(gpus) - taken, 0)
        self._metrics.queue(dict(states), len(gpus), free)

    async def watch(self) -> None:
        """Look at the store, and rest."""
        began = time.monotonic()
        await self.look()
        await anyio.sleep(SHARE * (time.monotonic() - began))

    async def look(self) -> None:
        """Read the queue if it changed."""
        async with self._looking:
            found = await self._threads.store(self._changed)
            if found is None:
                return
            before = self.rows
            self.rows, ended = found
            if self._read:  # else the runs started before this server did
                for row in self.rows.values():
                    self._count(before.get(row.id), row)
            for row in ended:
                self._note_end(row)
            self._read = True

    def _count(self, before: QueueRow | None, row: QueueRow) -> None:
        """Count how long a run waited that started since the last look."""
        if row.started_at is not None and (not before or before.started_at is None):
            self._metrics.waited(row.started_at - row.queued_at)

    def _note_end(self, row: QueueRow) -> None:
        reason = row.reason or Reason.INTERNAL
        self._metrics.ended(reason)
        logs.step("run_ended", run=row.id, team=row.team, reason=reason, why=row.why)

    def _changed(self) -> tuple[dict[str, QueueRow], list[QueueRow]] | None:
        """Return the runs that have not ended, and those that have since the last look.

        None if none changed.
        """
        # The number first: a change between the two calls is seen the next time.
        changes = self._site.store.changes()
        if changes == self._changes:
            return None
        rows = {row.id: row for row in self._site.store.unfinished()}
        ended: list[QueueRow] = []
        if self._changes >= 0:  # else they ended before this server started
            ended = self._site.store.ended_between(self._changes, changes)
        self._changes = changes
        return rows, ended


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
