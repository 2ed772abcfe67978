"""The HTTP interface of a server, as one ASGI application, and routes of accounts."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread
from msgspec.structs import asdict
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from runner import __version__
from runner.core import Reason
from runner.core.quantities import DAY_S
from runner.core.screen import printable
from runner.core.wire import (
    API,
    API_VERSION,
    LoginAnswer,
    LoginCode,
    LoginRequest,
    Me,
    RoleLimits,
    Scope,
    ServerFacts,
)
from runner.server import bounds, messages
from runner.server.bounds import TryCounter, network
from runner.server.database.accounts import Identity
from runner.server.downloads import FileRoutes, TailRoute
from runner.server.messages import answer, decoded, nothing, refuse
from runner.server.pages import PageRoutes
from runner.server.requests import RequestMiddleware, Site, refused
from runner.server.runs import LOOK_S, QueueSnapshot, RunRoutes
from runner.server.submissions import SubmissionRoutes
from runner.server.uploads import UploadRoutes

LEAST_CLIENT = "0.1.0"
MOST_DEVICE = 100
ALL = "all"
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
    for_all = (
        ("GET", f"{API}/", accounts.facts),
        ("POST", f"{API}/login", accounts.login),
        ("GET", "/healthz", watched.healthz),
        ("GET", "/metrics", watched.metrics),
    )
    with_token = (
        ("POST", "/codes", accounts.another),
        ("GET", "/me", accounts.me),
        ("DELETE", "/tokens/{id}", accounts.revoke),
        ("GET", "/uploads/{sha256}", uploads.get),
        ("PUT", "/uploads/{sha256}", uploads.put),
        ("GET", "/runs", runs.page),
        ("PUT", "/runs/{id}", runs.put),
        ("GET", "/runs/{id}", runs.get),
        ("DELETE", "/runs/{id}", runs.cancel),
        ("GET", "/runs/{id}/tail", tail.tail),
        ("GET", "/runs/{id}/files/{name}", files.file),
        ("GET", "/runs/{id}/build", files.build),
        ("GET", "/runs/{id}/source", files.source),
        ("GET", "/milestones", submissions.milestones),
        ("GET", "/milestones/{name}", submissions.file),
        ("GET", "/standings/{name}", submissions.standings),
        ("GET", "/submissions", submissions.page),
        ("PUT", "/submissions/{id}", submissions.put),
        ("GET", "/submissions/{id}", submissions.get),
        ("PUT", "/submissions/{id}/chosen", submissions.choose),
        ("GET", "/queue", queue.get),
        ("PUT", "/queue/drain", queue.drain),
    )
    pages = PageRoutes(site, queue, runs, submissions, accounts.redeem)
    routes = pages.routes()
    routes += [Route(path, call, methods=[method]) for method, path, call in for_all]
    routes += [
        Route(API + path, site.identified(reply), methods=[method])
        for method, path, reply in with_token
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


async def _repeated(work: Callable[[], Awaitable[None]], pause_s: float) -> None:
    """Do background work for ever; its faults are logged, and pass."""
    failing = False
    while True:
        try:
            await work()
            failing = False
        except Exception as error:
            if not failing:
                messages.fault("background_failed", error)
            failing = True
        await anyio.sleep(pause_s)


class AccountRoutes:
    """Routes of logins, and what a server says of itself."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tries = TryCounter(bounds.LOGIN_TRIES, bounds.LOGIN_REFILL_S)
        self._all = TryCounter(bounds.ALL_LOGIN_TRIES, bounds.ALL_LOGIN_REFILL_S)

    async def facts(self, request: Request) -> Response:
        """Answer `GET /api/v1/`."""
        facts = ServerFacts(__version__, API_VERSION, LEAST_CLIENT, self._site.now())
        return answer(facts)

    async def login(self, request: Request) -> Response:
        """Answer `POST /api/v1/login`."""
        asked = await decoded(request, LoginRequest)
        valid_s = self._site.rules.token_valid_s
        its = asked.code, asked.device, valid_s
        token, who = await self.redeem(request, *its)
        me = await run_in_threadpool(self._me, who)
        return answer(LoginAnswer(token, me), 201)

    async def redeem(
        self, request: Request, code: str, device: str, valid_s: float | None
    ) -> tuple[str, Identity]:
        """Return a new token for a code, and whose it is; refuse a wrong code.

        A try is counted before the code is looked at, and given back if it is right:
        many people may log in from one address, and nobody can try codes at once. Who
        has no try left takes none of those that all share.
        """
        address = network(request.client.host) if request.client else ""
        now = self._site.now()
        if known := self._tries.take(address, now) or self._all.take(ALL, now):
            text = "too many codes that are not valid were tried"
            raise refuse(Reason.RATE_LIMIT, text, retry_at=known)
        device = printable(device[:MOST_DEVICE]).replace("\n", " ")
        its = code.strip(), device, now, valid_s, tuple(Scope)
        found = await run_in_threadpool(self._site.store.redeem, *its)
        if found is None:
            text = "this code is not valid: it was used, is too old, or is mistyped"
            hint = "`rai web` or `rai login --another` makes a new one, or your staff"
            raise refuse(Reason.NOT_ALLOWED, text, hint=hint)
        self._tries.give_back(address, now)
        self._all.give_back(ALL, now)
        _, who = found
        about = {"token": who.token_id, "client": address}
        messages.step("login", team=who.team, person=who.person, **about)
        return found

    async def me(self, request: Request, who: Identity) -> Response:
        """Answer `GET /api/v1/me`."""
        return answer(await run_in_threadpool(self._me, who))

    async def another(self, request: Request, who: Identity) -> Response:
        """Answer `POST /api/v1/codes`: a code for another login of who asks."""
        now, valid_s = self._site.now(), bounds.ANOTHER_VALID_S
        make = self._site.store.another
        made = await run_in_threadpool(make, who.token_id, now, valid_s)
        messages.step("login_code", team=who.team, person=who.person)
        return answer(LoginCode(made.code, made.expires_at), 201)

    async def revoke(self, request: Request, who: Identity) -> Response:
        """Answer `DELETE /api/v1/tokens/{id}`: a token of the person who asks."""
        token_id = request.path_params["id"]
        if token_id == "current":
            token_id = who.token_id
        if not await run_in_threadpool(self._revoked, who, token_id):
            raise nothing("token")
        self._site.forget(token_id)
        messages.step("logout", team=who.team, person=who.person, token=token_id)
        return Response(status_code=204)

    def _revoked(self, who: Identity, token_id: str) -> bool:
        store = self._site.store
        own = {token.id for token in store.tokens(who.team, who.person)}
        return token_id in own and store.revoke(token_id, self._site.now())

    def _me(self, who: Identity) -> Me:
        store, role = self._site.store, self._site.rules.role(who.role)
        now = self._site.now()
        use = store.use(who.team, now - DAY_S)
        left = resets_at = None
        if role.a_day is not None:
            left = max(role.a_day - use.queued_since, 0)
            resets_at = use.oldest_since and use.oldest_since + DAY_S
        gpu_left_s = role.gpu_a_day_s
        if gpu_left_s is not None:
            had = store.gpu_use(now - DAY_S, now).get(who.team)
            gpu_left_s = max(gpu_left_s - (had.seconds if had else 0.0), 0.0)
        limits = RoleLimits(
            role.at_once,
            left,
            resets_at,
            gpu_left_s,
            role.upload_bytes,
            role.disk_bytes,
            use.bytes,
            network=bool(role.ceilings.get("network", True)),
            own_images=role.images is None,
        )
        return Me(**asdict(who), limits=limits)


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
        store, runs, drained = "ok", "ok", False
        try:
            await run_in_threadpool(self._site.store.check)
            drained = bool(await run_in_threadpool(self._site.store.drained))
        except Exception as error:
            messages.fault("store_failed", error)
            store = "it cannot be read and written"
        facts = await self._queue.facts()
        if facts is None:
            runs = "engines and GPUs were not looked at yet"
        elif facts.problems:
            runs = "nothing can run"
        found = {"version": __version__, "store": store, "runs": runs}
        return {**found, "drained": drained}
