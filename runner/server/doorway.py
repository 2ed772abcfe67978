"""What every request passes: its id, its log line, its errors, headers, figures."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.core import Reason
from runner.core.errors import RaiError
from runner.server import logs
from runner.server.bounds import DRAIN_BYTES, DRAIN_S
from runner.server.metrics import Metrics
from runner.server.refusing import DeniedError, of_error, refuse, response
from runner.server.visits import KEY, REVOKED, Visit, Visits

HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Of each answer: no browser shows, runs or keeps any of it."""

OTHER = "other"


class Doorway:
    """The outermost layer of the application.

    Whatever goes wrong behind it becomes a Refusal; what is no refusal is a fault, of
    which the client learns the id of its line in the log.
    """

    def __init__(
        self,
        app: ASGIApp,
        visits: Visits,
        metrics: Metrics,
        now: Callable[[], float],
        begin: Callable[[], None],
        route: Callable[[Scope], str],
    ) -> None:
        self._app, self._visits, self._metrics = app, visits, metrics
        self._now, self._begin, self._route = now, begin, route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._begin()
        visit = Visit()
        scope[KEY] = visit
        exchange = _Exchange(visit.id, receive, send)
        with self._visits.entered(visit):
            with visit.scope:
                await self._passed(scope, exchange, visit)
            if visit.ended_by and not (exchange.status or exchange.gone):
                await self._refused(_ended(visit), scope, exchange)
            self._count(scope, exchange, visit)

    async def _passed(self, scope: Scope, exchange: _Exchange, visit: Visit) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except DeniedError as error:
            await self._refused(error, scope, exchange)
        except ClientDisconnect:
            exchange.gone = True
        except OSError as error:
            if not exchange.gone:
                await self._failed(error, scope, exchange, visit)
        except Exception as error:
            await self._failed(error, scope, exchange, visit)

    async def _failed(
        self, error: Exception, scope: Scope, exchange: _Exchange, visit: Visit
    ) -> None:
        known = of_error(error) if isinstance(error, RaiError) else None
        if known is None:
            logs.fault("fault", error, request=visit.id, route=self._route(scope))
            text = f"the server failed; its log says more under {visit.id}"
            known = refuse(Reason.INTERNAL, text, hint="tell your staff")
        else:
            logs.step("unable", request=visit.id, why=str(error))
        await self._refused(known, scope, exchange)

    async def _refused(
        self, error: DeniedError, scope: Scope, exchange: _Exchange
    ) -> None:
        self._metrics.refused(error.refusal.reason)
        if exchange.status:
            return  # the answer breaks off, which the client sees
        if not await exchange.drained(Request(scope)):
            error.headers["Connection"] = "close"
        answer = response(error, self._now())
        exchange.problem = "; ".join(str(one) for one in error.refusal.problems)
        await answer(scope, exchange.receive, exchange.send)

    def _count(self, scope: Scope, exchange: _Exchange, visit: Visit) -> None:
        route = self._route(scope)
        timed = None if visit.long else visit.seconds
        self._metrics.answered(route, scope["method"], exchange.status, timed)
        who = visit.identity
        client = scope.get("client")
        facts: dict[str, logs.Fact] = {
            "request": visit.id,
            "method": scope["method"],
            "path": scope["path"],
            "status": exchange.status,
            "ms": round(visit.seconds * 1000, 1),
            "in": exchange.received,
            "out": exchange.sent,
            "client": client[0] if client else "",
        }
        if who:
            facts |= {"team": who.team, "person": who.person, "token": who.token_id}
        if exchange.problem:
            facts["refused"] = exchange.problem
        if visit.ended_by or exchange.gone:
            facts["ended_by"] = visit.ended_by or "client"
        logs.step("request", **facts)


def _ended(visit: Visit) -> DeniedError:
    if visit.ended_by == REVOKED:
        return refuse(Reason.NOT_ALLOWED, "the token was revoked", status=401)
    return refuse(Reason.BUSY, visit.ended_by, hint="ask again in a few seconds")


class _Exchange:
    """The two directions of one request, counted."""

    def __init__(self, visit_id: str, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._id = visit_id.encode()
        self.status = self.received = self.sent = 0
        self.problem = ""
        self.gone = self._whole = False

    async def receive(self) -> Message:
        """Return the next message of the client."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.gone = True
        else:
            self.received += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a message to the client; an answer's headers with ours."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            had = {name.lower() for name, _ in message["headers"]}
            ours = [*HEADERS, (b"x-request-id", self._id)]
            more = [one for one in ours if one[0] not in had]
            message = {**message, "headers": [*message["headers"], *more]}
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)

    async def drained(self, request: Request) -> bool:
        """Read the little that is left of a body; return whether none is left.

        A connection that is closed with unread bytes may lose the answer.
        """
        has_body = (
            request.headers.get("content-length", "0") != "0"
            or "transfer-encoding" in request.headers
        )
        if self._whole or self.gone or not has_body:
            return True
        most = self.received + DRAIN_BYTES
        until = time.monotonic() + DRAIN_S
        while not self._whole and not self.gone and self.received < most:
            with anyio.move_on_after(until - time.monotonic()) as limit:
                await self.receive()
            if limit.cancelled_caught:
                break
        return self._whole
