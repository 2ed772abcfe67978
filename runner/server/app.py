"""The HTTP interface of a server, as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runner.core import Reason
from runner.server import logs
from runner.server.accounts import AccountRoutes
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.board import LOOK_S, Board
from runner.server.downloads import FileRoutes
from runner.server.health import WatchRoutes
from runner.server.metrics import Metrics
from runner.server.refusing import refuse
from runner.server.runs import RunRoutes
from runner.server.tail import TailRoute
from runner.server.threads import Threads
from runner.server.uploads import UploadRoutes
from runner.server.visits import Visits
from runner.wire import API


def make_app(site: Site) -> Starlette:
    """Return the application of a server.

    Its lifespan is its background work. ``app.state.end_streams()`` ends what waits or
    is sent, for a server that stops; it is called in the loop.
    """
    threads, metrics = Threads(), Metrics()
    visits = Visits(site, threads, metrics)
    gate = Gate(site, threads, visits)
    board = Board(site, threads, metrics)
    accounts = AccountRoutes(site, threads, gate)
    uploads = UploadRoutes(site, threads, gate, metrics)
    runs = RunRoutes(site, threads, gate, board)
    files = FileRoutes(site, threads, gate, runs)
    tail = TailRoute(site, threads, gate, runs, board, metrics)
    watched = WatchRoutes(site, threads, gate, board, metrics)
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
        Route(f"{API}/queue", watched.queue, methods=["GET"]),
        Route(f"{API}/queue/drain", watched.drain, methods=["PUT"]),
        Route("/healthz", watched.healthz, methods=["GET"]),
        Route("/metrics", watched.metrics, methods=["GET"]),
    ]

    @asynccontextmanager
    async def working(app: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(_repeated, board.watch, LOOK_S)
            group.start_soon(_repeated, visits.end_revoked, 0.0)
            yield
            group.cancel_scope.cancel()

    app = Starlette(
        routes=routes,
        middleware=[Middleware(visits.door)],
        exception_handlers={HTTPException: _unrouted},
        lifespan=working,
    )
    app.router.redirect_slashes = False
    app.state.end_streams = lambda: visits.end_long("the server stops")
    return app


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"there is no {request.method} of this path"
    status, headers = error.status_code, error.headers
    raise refuse(Reason.USAGE, text, status=status, headers=headers)


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
