"""What every request passes: its id, whose it is, its refusal, headers, log line.

The requests under way are known, so that they can be counted and ended.
"""

from __future__ import annotations

import os
import time
from email.utils import formatdate

import anyio
from anyio import CancelScope
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runner.core import Reason
from runner.core.errors import RaiError
from runner.database.accounts import Identity
from runner.server import bounds, logs
from runner.server.base import Site
from runner.server.metrics import Metrics
from runner.server.rates import TryCounter, network
from runner.server.refusing import DeniedError, of_error, refuse, response
from runner.server.threads import Threads

KEY = "rai.visit"
REVOKED = "revoked"
OTHER = "other"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
"""Of each answer: no browser shows, runs or keeps any of it."""


class Visit:
    """One request from its first byte to the last of its answer."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self.id = os.urandom(6).hex()
        self.began = time.monotonic()
        self.identity: Identity | None = None
        self.long = False
        """Whether it may take as long as a run, or as its client's network."""
        self.frequent = False
        """Whether only a failure of it is worth a line of the log."""
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
            had = {name.lower() for name, _ in message["headers"]}
            now = (b"date", formatdate(usegmt=True).encode())
            ours = [*HEADERS, now, (b"x-request-id", self.id.encode())]
            more = [one for one in ours if one[0] not in had]
            message = {**message, "headers": [*message["headers"], *more]}
        self.sent += len(message.get("body", b""))
        await self._send(message)


def visit_of(scope: Scope | Request) -> Visit:
    """Return the visit of a request."""
    found = scope.scope[KEY] if isinstance(scope, Request) else scope[KEY]
    assert isinstance(found, Visit)
    return found


class Visits:
    """All requests under way."""

    def __init__(self, site: Site, threads: Threads, metrics: Metrics) -> None:
        self._site, self._threads, self._metrics = site, threads, metrics
        self._open: set[Visit] = set()
        self._lines = TryCounter(
            bounds.STRANGER_LINES, bounds.STRANGER_LINE_S, bounds.MOST_ADDRESSES
        )
        self._unwritten = 0

    def belongs(self, visit: Visit, identity: Identity) -> None:
        """Note whose a request is; refuse one of too many."""
        visit.identity = identity
        who = identity.team, identity.person
        others = [one.identity for one in self._open if one.identity]
        if sum((one.team, one.person) == who for one in others) > bounds.MOST_OPEN:
            text = f"{bounds.MOST_OPEN} requests of yours are under way"
            raise refuse(Reason.RATE_LIMIT, text, hint="wait until some have ended")

    def end_long(self, why: str) -> None:
        """End those that may take long; their clients ask for the rest again."""
        for visit in [one for one in self._open if one.long]:
            visit.end(why)

    async def end_revoked(self) -> None:
        """End those whose tokens are no longer valid, after a while."""
        await anyio.sleep(bounds.REVOKED_S)
        old = [
            (visit, visit.identity.token_id)
            for visit in self._open
            if visit.identity and visit.seconds > bounds.REVOKED_S
        ]
        if old:
            bad = await self._threads.store(self._invalid, {one for _, one in old})
            for visit, token_id in old:
                if token_id in bad:
                    visit.end(REVOKED)

    def _invalid(self, ids: set[str]) -> set[str]:
        now = self._site.now()
        return {one for one in ids if not self._site.store.valid(one, now)}

    def door(self, app: ASGIApp) -> ASGIApp:
        """Return an application, the outermost, that each request passes.

        Whatever goes wrong behind it becomes a Refusal; what is no refusal is a fault,
        of which the client learns the id of its line in the log.
        """

        async def passed(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            visit = scope[KEY] = Visit(receive, send)
            self._open.add(visit)
            try:
                with visit.scope:
                    try:
                        await app(scope, visit.receive, visit.send)
                    except Exception as error:
                        await self._refused(scope, visit, error)
                if visit.scope.cancelled_caught and not visit.status:
                    await self._refused(scope, visit, _ended(visit))
            finally:
                self._open.discard(visit)
                self._noted(scope, visit)
                del scope[KEY]  # a circle would keep the connection and its buffers

        return passed

    async def _refused(self, scope: Scope, visit: Visit, error: Exception) -> None:
        if isinstance(error, ClientDisconnect | OSError) and visit.ended_by:
            return
        known = error if isinstance(error, DeniedError) else _known(error, visit)
        self._metrics.refused(known.refusal.reason)
        if not visit.status:  # else the answer breaks off, which the client sees
            visit.refused = "; ".join(str(one) for one in known.refusal.problems)
            answer = response(known, self._site.now())
            await answer(scope, visit.receive, visit.send)

    def _noted(self, scope: Scope, visit: Visit) -> None:
        endpoint, routes = scope.get("endpoint"), scope["app"].routes
        route = next((one.path for one in routes if one.endpoint == endpoint), OTHER)
        timed = None if visit.long else visit.seconds
        self._metrics.answered(route, scope["method"], visit.status, timed)
        if visit.frequent and visit.status == 200:
            return
        address = scope["client"][0] if scope.get("client") else ""
        facts: dict[str, logs.Fact] = {
            "request": visit.id,
            "method": scope["method"],
            "path": scope["path"],
            "status": visit.status,
            "ms": round(visit.seconds * 1000, 1),
            "in": visit.received,
            "out": visit.sent,
            "client": address,
        }
        if who := visit.identity:
            facts |= {"team": who.team, "person": who.person, "token": who.token_id}
        elif self._lines.take(network(address), self._site.now()) is not None:
            self._unwritten += 1
            return
        elif self._unwritten:
            facts["unwritten"], self._unwritten = self._unwritten, 0
        if visit.refused:
            facts["refused"] = visit.refused
        if visit.ended_by:
            facts["ended_by"] = visit.ended_by
        logs.step("request", **facts)


def _ended(visit: Visit) -> DeniedError:
    if visit.ended_by == REVOKED:
        return refuse(Reason.NOT_ALLOWED, "the token was revoked", status=401)
    return refuse(Reason.BUSY, visit.ended_by, hint="ask again in a few seconds")


def _known(error: Exception, visit: Visit) -> DeniedError:
    """Return the refusal that a client gets for an error; the log has more."""
    if isinstance(error, RaiError) and (known := of_error(error)):
        logs.step("unable", request=visit.id, why=str(error))
        return known
    logs.fault("fault", error, request=visit.id)
    text = f"the server failed; its log says more under {visit.id}"
    return refuse(Reason.INTERNAL, text, hint="tell your staff")
