"""What every request passes: its id, whose it is, its refusal, headers, log line.

The requests under way are known, so that they can be ended; all are counted.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from msgspec import Struct, field
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from runner.core import Reason
from runner.core.errors import RaiError
from runner.core.wire import Refusal, Scope
from runner.server import bounds, messages
from runner.server.bounds import TryCounter, network
from runner.server.database import Store
from runner.server.database.accounts import TOKEN, Identity
from runner.server.decision import QueueDecision
from runner.server.folders import ServerRuns
from runner.server.messages import DeniedError, refuse
from runner.server.scheduling import ServerRules

REVOKED = "revoked"
OTHER = "other"
MOST_KEPT = 1024
_BEARER = re.compile(f"bearer +({TOKEN})", re.I)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Of each answer: no browser shows, runs or keeps any of it."""

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

Args = TypeVarTuple("Args")
T = TypeVar("T")


class Metrics:
    """The figures of `/metrics`, from the start on; none has a name of anybody."""

    def __init__(self) -> None:
        at = self.registry = CollectorRegistry()
        counter, gauge = partial(Counter, registry=at), partial(Gauge, registry=at)
        timed = partial(Histogram, registry=at)
        asked = ["route", "method", "status"]
        self.requests = counter("rai_requests", "Requests answered.", asked)
        text = "Time until the end of an answer; not of streams and uploads."
        self.seconds = timed("rai_request_seconds", text, ["route"], buckets=_SECONDS)
        self.refused = counter(
            "rai_refused", "Requests refused, by reason.", ["reason"]
        )
        self.uploaded = counter("rai_upload_bytes", "Bytes of uploads taken.")
        self.followers = gauge("rai_followers", "Clients that follow a run.")
        self.runs = gauge("rai_runs", "Runs that have not ended, by state.", ["state"])
        self.ended = counter(
            "rai_runs_ended", "Runs that ended, by reason.", ["reason"]
        )
        self.gpus = gauge("rai_gpus", "GPUs, by use.", ["use"])
        text = "From a run's request to its start."
        self.waited = timed("rai_queue_wait_seconds", text, buckets=_WAITS)

    def answered(
        self, route: str, method: str, status: int, seconds: float | None
    ) -> None:
        """Count a request; ``seconds`` is None for one that may take long."""
        method = method if method in _METHODS else OTHER
        self.requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self.seconds.labels(route).observe(seconds)


class Site(Struct, eq=False):
    """A server's parts, as ``make_app`` takes them and endpoints use them.

    ``uploads`` is the folder of the packed projects, ``wake`` tells the feeder that the
    queue changed, ``decision`` returns what the feeder decided last, and ``now``
    returns seconds since 1970. All these may be called from any thread.

    Calls of the store go to Starlette's threads, those of ``runs`` and those that read
    and write files to others: what hangs holds up nothing else.
    """

    store: Store
    runs: ServerRuns
    rules: ServerRules
    uploads: Path
    wake: Callable[[], None] = lambda: None
    decision: Callable[[], QueueDecision] = QueueDecision
    now: Callable[[], float] = time.time
    milestones: Sequence[Path] = ()
    """The site's folders of milestones."""

    metrics: Metrics = field(default_factory=Metrics)
    under_way: set[RequestContext] = field(default_factory=set)
    tokens: OrderedDict[bytes, tuple[Identity, float]] = field(
        default_factory=OrderedDict
    )
    """Tokens that were found valid count as valid until a time."""

    file_threads: CapacityLimiter = field(
        default_factory=lambda: CapacityLimiter(bounds.FILE_THREADS)
    )
    run_threads: CapacityLimiter = field(
        default_factory=lambda: CapacityLimiter(bounds.RUN_THREADS)
    )

    async def in_files(self, call: Callable[[*Args], T], *args: *Args) -> T:
        """Return what a call that reads or writes files returns."""
        return await to_thread.run_sync(call, *args, limiter=self.file_threads)

    async def in_runs(self, call: Callable[[*Args], T], *args: *Args) -> T:
        """Return what a call of ``runs`` returns."""
        return await to_thread.run_sync(call, *args, limiter=self.run_threads)

    def identified(
        self, reply: Callable[[Request, Identity], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that refuses requests without a valid token.

        ``reply`` answers the others, and is given whose each is.
        """

        async def endpoint(request: Request) -> Response:
            return await reply(request, await self.identify(request))

        return endpoint

    async def identify(self, request: Request) -> Identity:
        """Return whose a request is; refuse one without a valid token."""
        given = request.headers.getlist("authorization")
        match = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
        return await self.known(request, match[1] if match else "")

    async def known(self, request: Request, token: str) -> Identity:
        """Return whose a token is that came with a request; refuse one not valid."""
        if not token:
            raise _unknown("no token was sent")
        now = self.now()
        key = hashlib.sha256(token.encode()).digest()
        found, until = self.tokens.get(key, (None, 0.0))
        if found is None or not until - bounds.REVOKED_S <= now < until:
            self.tokens.pop(key, None)
            found = await run_in_threadpool(self.store.identify, token, now)
            if found:
                self.tokens[key] = found, now + bounds.REVOKED_S
            if len(self.tokens) > MOST_KEPT:
                self.tokens.popitem(last=False)
        if found is None or (found.expires_at is not None and found.expires_at <= now):
            raise _unknown("this token is not valid: it is unknown, expired or revoked")
        context_of(request).identity = found
        self._bound(found)
        if Scope.RUN not in found.scopes:
            text = f"this token is not for that: it lacks the scope `{Scope.RUN}`"
            raise refuse(Reason.NOT_ALLOWED, text)
        return found

    def forget(self, token_id: str) -> None:
        """Ask the store about a token again, which was revoked."""
        for key, (known, _) in [*self.tokens.items()]:
            if known.token_id == token_id:
                del self.tokens[key]

    def end_long(self, why: str) -> None:
        """End those that may take long; their clients ask for the rest again."""
        for context in [one for one in self.under_way if one.long]:
            context.end(why)

    async def end_revoked(self) -> None:
        """End the requests whose tokens are no longer valid, after a while."""
        await anyio.sleep(bounds.REVOKED_S)
        old = [
            (context, context.identity.token_id)
            for context in self.under_way
            if context.identity and context.seconds > bounds.REVOKED_S
        ]
        ids = {token_id for _, token_id in old}
        bad = await run_in_threadpool(self._invalid, ids) if ids else ids
        for context, token_id in old:
            if token_id in bad:
                context.end(REVOKED)

    def _invalid(self, ids: set[str]) -> set[str]:
        now = self.now()
        return {one for one in ids if not self.store.valid(one, now)}

    def _bound(self, who: Identity) -> None:
        """Refuse a request of too many of one person."""
        others = [one.identity for one in self.under_way if one.identity]
        own = [(one.team, one.person) == (who.team, who.person) for one in others]
        if sum(own) > bounds.MOST_OPEN:
            text = f"{bounds.MOST_OPEN} requests of yours are under way"
            raise refuse(Reason.RATE_LIMIT, text, hint="wait until some have ended")


def _unknown(text: str) -> DeniedError:
    hint = "log in with `rai login URL`; your staff have the code"
    headers = {"WWW-Authenticate": 'Bearer realm="rai"'}
    return refuse(Reason.NOT_ALLOWED, text, status=401, hint=hint, headers=headers)


class RequestContext:
    """One request from its first byte to the last of its answer."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.id = os.urandom(6).hex()
        self.began = time.monotonic()
        self.identity: Identity | None = None
        self.long = False
        """Whether it may take as long as a run, or as its client's network."""
        self.frequent = False
        """Whether only a failure of it is worth a line of the log."""
        self.page: Callable[[Refusal], Response] | None = None
        """Makes a page of a refusal, where a browser asks."""
        self.scope = CancelScope()
        self.ended_by = self.refused = ""
        self.status = self.received = self.sent = 0
        self._receive, self._send = receive, send

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began

    def end(self, why: str) -> None:
        """Break it off, whatever it is doing."""
        self.ended_by = why
        self.scope.cancel()

    async def receive(self) -> Message:
        """Return the next message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.ended_by = self.ended_by or "client"
        self.received += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        """Send a message to the client; an answer's headers with ours."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            own = {"date": formatdate(usegmt=True), "x-request-id": self.id}
            for name, value in (_HEADERS | own).items():
                headers.setdefault(name, value)
        self.sent += len(message.get("body", b""))
        await self._send(message)


def context_of(request: Mapping[str, Any]) -> RequestContext:
    """Return the context of a request, or of its ASGI scope."""
    found = request["rai.context"]
    assert isinstance(found, RequestContext)
    return found


async def refused(request: Request, error: Exception) -> Response:
    """Answer a request that failed, as problem details; it handles all exceptions.

    A fault's own text may name files of the server: only the log has it.
    """
    context, site = context_of(request), request.app.state.site
    match error:
        case DeniedError():
            known = error
        case HTTPException(status_code=status, headers=headers):
            text = f"there is no {request.method} of this path"
            known = refuse(Reason.USAGE, text, status=status, headers=headers)
        case RaiError(reason=Reason.USAGE | Reason.BAD_SPEC | Reason.NOT_ALLOWED):
            known = refuse(error.reason, *error.problems)
        case RaiError(reason=Reason.BUSY):
            messages.step("unable", request=context.id, why=str(error))
            text = "a part of the server does not answer now"
            known = refuse(Reason.BUSY, text, hint="try again in a few seconds")
        case _:
            messages.fault("fault", error, request=context.id)
            text = f"the server failed; its log says more under {context.id}"
            known = refuse(Reason.INTERNAL, text, hint="tell your staff")
    site.metrics.refused.labels(known.refusal.reason).inc()
    context.refused = "; ".join(str(one) for one in known.refusal.problems)
    return context.page(known.refusal) if context.page else known.response(site.now())


class RequestMiddleware:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, site: Site) -> None:
        self._app, self._site = app, site
        self._lines = TryCounter(bounds.STRANGER_LINES, bounds.STRANGER_LINE_S)
        self._unwritten = 0

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever goes wrong behind this."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = scope["rai.context"] = RequestContext(receive, send)
        self._site.under_way.add(context)
        failed: Exception | None = None
        try:
            with context.scope:
                try:
                    await self._app(scope, context.receive, context.send)
                except Exception as error:
                    gone = isinstance(error, ClientDisconnect | OSError)
                    failed = None if gone and context.ended_by else error
            if context.scope.cancelled_caught and not context.status:
                failed = _ended(context)
            if failed:
                answer = await refused(Request(scope), failed)
                if not context.status:  # else the client sees that the answer ends
                    await answer(scope, context.receive, context.send)
        finally:
            self._site.under_way.discard(context)
            self._note(scope, context)
            # A circle would keep the connection and its buffers.
            del scope["rai.context"], failed

    def _note(self, scope: AsgiScope, context: RequestContext) -> None:
        """Count a request, and write its line of the log."""
        endpoint, routes = scope.get("endpoint"), scope["app"].routes
        route = next((one.path for one in routes if one.endpoint == endpoint), OTHER)
        timed = None if context.long else context.seconds
        self._site.metrics.answered(route, scope["method"], context.status, timed)
        if context.frequent and context.status in (200, 304):
            return
        address = scope["client"][0] if scope.get("client") else ""
        facts: dict[str, messages.Fact] = {
            "request": context.id,
            "method": scope["method"],
            "path": scope["path"],
            "status": context.status,
            "ms": round(context.seconds * 1000, 1),
            "in": context.received,
            "out": context.sent,
            "client": address,
        }
        if who := context.identity:
            facts |= {"team": who.team, "person": who.person, "token": who.token_id}
        elif self._lines.take(network(address), self._site.now()) is not None:
            self._unwritten += 1
            return
        elif self._unwritten:
            facts["unwritten"], self._unwritten = self._unwritten, 0
        if context.refused:
            facts["refused"] = context.refused
        if context.ended_by:
            facts["ended_by"] = context.ended_by
        messages.step("request", **facts)


def _ended(context: RequestContext) -> DeniedError:
    if context.ended_by == REVOKED:
        return refuse(Reason.NOT_ALLOWED, "the token was revoked", status=401)
    return refuse(Reason.BUSY, context.ended_by, hint="ask again in a few seconds")
