"""The HTTP interface of a server, as one ASGI application."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runner import __version__
from runner.server import bounds, logs
from runner.server.accounts import AccountRoutes
from runner.server.downloads import FileRoutes
from runner.server.messages import answer
from runner.server.queue import LOOK_S, QueueSnapshot
from runner.server.requests import RequestMiddleware, Site, refused
from runner.server.runs import RunRoutes
from runner.server.submissions import SubmissionRoutes
from runner.server.tail import TailRoute
from runner.server.uploads import UploadRoutes
from runner.wire import API

CHECK_S = 2.0
"""How old the answer of a check may be."""


def make_app(site: Site) -> Starlette:
    """Return the application of a server.

    Its lifespan is its background work. ``app.state.end_streams()`` ends what waits or
    is sent, for a server that stops; it is called in the loop.
    """
    queue = QueueSnapshot(site)
    accounts, uploads = AccountRoutes(site), UploadRoutes(site)
    runs, watched = RunRoutes(site, queue), WatchRoutes(site, queue)
    submissions = SubmissionRoutes(site, queue, runs)
    files, tail = FileRoutes(site, runs), TailRoute(site, runs, queue)
    routes = [
        Route(f"{API}/", accounts.facts, methods=["GET"]),
        Route(f"{API}/login", accounts.login, methods=["POST"]),
        Route(f"{API}/codes", accounts.another, methods=["POST"]),
        Route(f"{API}/me", accounts.me, methods=["GET"]),
        Route(f"{API}/tokens/{{id}}", accounts.revoke, methods=["DELETE"]),
        Route(f"{API}/uploads/{{sha256}}", uploads.get, methods=["GET"]),
        Route(f"{API}/uploads/{{sha256}}", uploads.put, methods=["PUT"]),
        Route(f"{API}/runs", runs.page, methods=["GET"]),
        Route(f"{API}/runs/{{id}}", runs.put, methods=["PUT"]),
        Route(f"{API}/runs/{{id}}", runs.get, methods=["GET"]),
        Route(f"{API}/runs/{{id}}", runs.cancel, methods=["DELETE"]),
        Route(f"{API}/runs/{{id}}/tail", tail.tail, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/files/{{name}}", files.file, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/build", files.build, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/source", files.source, methods=["GET"]),
        Route(f"{API}/milestones", submissions.milestones, methods=["GET"]),
        Route(f"{API}/milestones/{{name}}", submissions.file, methods=["GET"]),
        Route(f"{API}/standings/{{name}}", submissions.standings, methods=["GET"]),
        Route(f"{API}/submissions", submissions.page, methods=["GET"]),
        Route(f"{API}/submissions/{{id}}", submissions.put, methods=["PUT"]),
        Route(f"{API}/submissions/{{id}}", submissions.get, methods=["GET"]),
        Route(f"{API}/submissions/{{id}}/chosen", submissions.choose, methods=["PUT"]),
        Route(f"{API}/queue", queue.get, methods=["GET"]),
        Route(f"{API}/queue/drain", queue.drain, methods=["PUT"]),
        Route("/healthz", watched.healthz, methods=["GET"]),
        Route("/metrics", watched.metrics, methods=["GET"]),
    ]

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = bounds.STORE_THREADS
        async with anyio.create_task_group() as group:
            group.start_soon(_repeated, queue.watch, LOOK_S)
            group.start_soon(_repeated, site.end_revoked, 0.0)
            yield
            group.cancel_scope.cancel()

    app = Starlette(
        routes=routes,
        middleware=[Middleware(RequestMiddleware, site)],
        exception_handlers={HTTPException: refused},
        lifespan=working,
    )
    app.router.redirect_slashes = False
    app.state.site = site
    app.state.end_streams = lambda: site.end_long("the server stops")
    return app


class WatchRoutes:
    """`/healthz` and `/metrics`, for those who watch over a server."""

    def __init__(self, site: Site, queue: QueueSnapshot) -> None:
        self._site, self._queue = site, queue
        self._checking = anyio.Lock()
        self._found: dict[str, object] = {}
        self._found_at = float("-inf")

    async def healthz(self, request: Request) -> Response:
        """Answer `GET /healthz`: 503 where no run can be taken or started."""
        async with self._checking:
            if time.monotonic() - self._found_at > CHECK_S:
                self._found = await self._checked()
                self._found_at = time.monotonic()
        well = self._found["store"] == self._found["runs"] == "ok"
        return answer(self._found, 200 if well else 503)

    async def metrics(self, request: Request) -> Response:
        """Answer `GET /metrics`."""
        await self._queue.count()
        text = await run_in_threadpool(generate_latest, self._site.metrics.registry)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    async def _checked(self) -> dict[str, object]:
        store, drained = "ok", False
        try:
            await run_in_threadpool(self._site.store.check)
            drained = bool(await run_in_threadpool(self._site.store.drained))
        except Exception as error:
            logs.fault("store_failed", error)
            store = "it cannot be read and written"
        facts = await self._queue.facts()
        runs = "ok"
        if facts is None:
            runs = "engines and GPUs were not looked at yet"
        elif facts.problems:
            runs = "nothing can run"
        found = {"version": __version__, "store": store, "runs": runs}
        return {**found, "drained": drained}


async def _repeated(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """Do background work for ever; its faults are logged, and pass."""
    failing = False
    while True:
        try:
            await work()
            failing = False
        except Exception as error:
            if not failing:
                logs.fault("background_failed", error)
            failing = True
        await anyio.sleep(pause_s)
