"""`/healthz` and `/metrics`, for those who watch over a server; and the queue."""

from __future__ import annotations

import time

import anyio
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from runner import __version__
from runner.core import Reason
from runner.core.screen import printable
from runner.database.accounts import AuditEntry, Identity
from runner.server import bounds, logs
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.board import Board
from runner.server.bodies import answer, decoded
from runner.server.metrics import CONTENT_TYPE, Metrics
from runner.server.refusing import refuse
from runner.server.threads import Threads
from runner.wire import JSON
from runner.wire.remote_runs import DrainRequest

CHECK_S = 2.0
"""How old the answer of a check may be."""


class ServerHealth(Struct, frozen=True):
    """Whether a server can take runs: its store, what can run, and its queue."""

    version: str
    store: str
    runs: str
    drained: bool = False


class WatchRoutes:
    """The routes."""

    def __init__(
        self, site: Site, threads: Threads, gate: Gate, board: Board, metrics: Metrics
    ) -> None:
        self._site, self._threads, self._gate = site, threads, gate
        self._board, self._metrics = board, metrics
        self._checking = anyio.Lock()
        self._found = ServerHealth(__version__, "unknown", "unknown")
        self._found_at = float("-inf")

    async def queue(self, request: Request) -> Response:
        """Answer `GET /api/v1/queue`."""
        identity = await self._gate.identity(request)
        return Response(await self._board.queue(identity), media_type=JSON)

    async def drain(self, request: Request) -> Response:
        """Answer `PUT /api/v1/queue/drain`, for staff."""
        identity = await self._gate.identity(request)
        if not identity.staff:
            raise refuse(Reason.NOT_ALLOWED, "only staff may drain the queue")
        asked = await decoded(request, DrainRequest, bounds.MOST_SMALL_BODY)
        await self._threads.store(self._drain, identity, printable(asked.why))
        self._site.wake()
        return Response(await self._board.queue(identity), media_type=JSON)

    async def healthz(self, request: Request) -> Response:
        """Answer `GET /healthz`: 503 where no run can be taken or started."""
        async with self._checking:
            if time.monotonic() - self._found_at > CHECK_S:
                self._found = await self._checked()
                self._found_at = time.monotonic()
        well = self._found.store == self._found.runs == "ok"
        return answer(self._found, 200 if well else 503)

    async def metrics(self, request: Request) -> Response:
        """Answer `GET /metrics`."""
        await self._board.figures()
        text = await self._threads.store(self._metrics.text)
        return Response(text, media_type=CONTENT_TYPE)

    async def _checked(self) -> ServerHealth:
        try:
            drained = await self._threads.store(self._drained)
            store = "ok"
        except Exception as error:
            logs.fault("store_failed", error)
            drained, store = False, "it cannot be read and written"
        facts = await self._board.facts()
        runs = "ok"
        if facts is None:
            runs = "engines and GPUs were not looked at yet"
        elif facts.problems:
            runs = "nothing can run"
        return ServerHealth(__version__, store, runs, drained)

    def _drain(self, who: Identity, why: str) -> None:
        self._site.store.drain(why)
        act = "drain" if why else "drain off"
        entry = AuditEntry(self._site.now(), f"{who.team}/{who.person}", act, why)
        self._site.store.audit(entry)

    def _drained(self) -> bool:
        self._site.store.check()
        return bool(self._site.store.drained())
