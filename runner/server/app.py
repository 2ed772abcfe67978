"""The HTTP interface of a server, as one ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from runner.core import Reason
from runner.server import logs
from runner.server.accounts import AccountRoutes
from runner.server.auth import Gate
from runner.server.base import Site
from runner.server.board import Board
from runner.server.doorway import OTHER, Doorway
from runner.server.downloads import FileRoutes
from runner.server.follow import FollowRoute
from runner.server.following import FollowedRuns
from runner.server.health import WatchRoutes
from runner.server.metrics import Metrics
from runner.server.refusing import refuse, response
from runner.server.runs import RunRoutes
from runner.server.threads import Threads
from runner.server.uploads import UploadRoutes
from runner.server.visits import Visits
from runner.wire import API

Background = Callable[[], Coroutine[Any, Any, None]]


def make_app(site: Site) -> Starlette:
    """Return the application of a server.

    It starts its own background work with its first request, in the loop of that.
    ``app.state.end_streams()`` ends what is followed or sent, for a server that stops;
    it is called in the loop.
    """
    threads, metrics = Threads(), Metrics()
    visits = Visits(site, threads)
    gate = Gate(site, threads, visits)
    board = Board(site, threads, metrics)
    accounts = AccountRoutes(site, threads, gate)
    uploads = UploadRoutes(site, threads, gate, metrics)
    runs = RunRoutes(site, threads, gate, board)
    files = FileRoutes(site, threads, gate, runs)
    followed = FollowRoute(gate, runs, FollowedRuns(site, threads, board), metrics)
    watched = WatchRoutes(site, threads, gate, board, metrics)
    routes = [
        Route(f"{API}/", accounts.facts, methods=["GET"]),
        Route(f"{API}/login", accounts.login, methods=["POST"]),
        Route(f"{API}/me", accounts.me, methods=["GET"]),
        Route(f"{API}/tokens/{{id}}", accounts.revoke, methods=["DELETE"]),
        Route(f"{API}/uploads", uploads.create, methods=["POST"]),
        Route(f"{API}/uploads/{{id}}", uploads.offset, methods=["HEAD"]),
        Route(f"{API}/uploads/{{id}}", uploads.append, methods=["PATCH"]),
        Route(f"{API}/runs", runs.page, methods=["GET"]),
        Route(f"{API}/runs/{{id}}", runs.put, methods=["PUT"]),
        Route(f"{API}/runs/{{id}}", runs.get, methods=["GET"]),
        Route(f"{API}/runs/{{id}}", runs.cancel, methods=["DELETE"]),
        Route(f"{API}/runs/{{id}}/follow", followed.follow, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/files/{{name}}", files.file, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/build", files.build, methods=["GET"]),
        Route(f"{API}/runs/{{id}}/source", files.source, methods=["GET"]),
        Route(f"{API}/queue", watched.queue, methods=["GET"]),
        Route("/healthz", watched.healthz, methods=["GET"]),
        Route("/metrics", watched.metrics, methods=["GET"]),
    ]
    begin = _Beginning([board.watch, board.watch_host, visits.watch])
    paths = {route.endpoint: route.path for route in routes}

    def path(scope: Scope) -> str:
        endpoint = scope.get("endpoint")
        return paths.get(endpoint, OTHER) if endpoint else OTHER

    doorway = Middleware(Doorway, visits, metrics, site.now, begin, path)

    async def unrouted(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = f"there is no {request.method} of this path"
        known = refuse(
            Reason.USAGE, text, status=error.status_code, headers=error.headers
        )
        return response(known, site.now())

    app = Starlette(
        routes=routes,
        middleware=[doorway],
        exception_handlers={HTTPException: unrouted},
    )
    app.router.redirect_slashes = False
    app.state.end_streams = lambda: visits.end_long("the server stops")
    return app


class _Beginning:
    """Background work, which begins once there is a loop to do it in."""

    def __init__(self, works: list[Background]) -> None:
        self._works = works
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        self._loop = loop
        self._tasks = [loop.create_task(_logged(work)) for work in self._works]


async def _logged(work: Background) -> None:
    try:
        await work()
    except Exception as error:
        logs.fault("background_failed", error)
        raise
