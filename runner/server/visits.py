"""The requests under way: whose each is, and their end when a token is revoked."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from anyio import CancelScope
from starlette.requests import Request
from starlette.types import Scope as AsgiScope

from runner.core import Reason
from runner.database.base import Identity
from runner.server.base import Site
from runner.server.bounds import MOST_OPEN, REVOKED_S
from runner.server.refusing import refuse
from runner.server.threads import Threads

KEY = "rai.visit"
REVOKED = "revoked"


class Visit:
    """One request from its first byte to the last of its answer."""

    def __init__(self) -> None:
        self.id = os.urandom(6).hex()
        self.began = time.monotonic()
        self.identity: Identity | None = None
        self.run = ""
        self.ended_by = ""
        self.long = False
        """Whether it may take as long as a run, or as its client's network."""
        self.scope = CancelScope()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.began

    def end(self, why: str) -> None:
        """Break it off, whatever it is doing."""
        self.ended_by = why
        self.scope.cancel()


def visit_of(scope: AsgiScope | Request) -> Visit:
    """Return the visit of a request."""
    found = scope.scope[KEY] if isinstance(scope, Request) else scope[KEY]
    assert isinstance(found, Visit)
    return found


class Visits:
    """All requests under way."""

    def __init__(self, site: Site, threads: Threads) -> None:
        self._site, self._threads = site, threads
        self._open: set[Visit] = set()
        self._of_person: Counter[tuple[str, str]] = Counter()

    def __iter__(self) -> Iterator[Visit]:
        return iter(tuple(self._open))

    @contextmanager
    def entered(self, visit: Visit) -> Iterator[None]:
        """Count a request while it is under way."""
        self._open.add(visit)
        try:
            yield
        finally:
            self._open.discard(visit)
            if visit.identity:
                self._of_person[_person(visit.identity)] -= 1
                self._of_person += Counter()  # drops those of none

    def belongs(self, visit: Visit, identity: Identity) -> None:
        """Note whose a request is; refuse one of too many."""
        if visit.identity is None:
            self._of_person[_person(identity)] += 1
        visit.identity = identity
        if self._of_person[_person(identity)] > MOST_OPEN:
            text = f"{MOST_OPEN} requests of yours are under way"
            raise refuse(Reason.RATE_LIMIT, text, hint="wait until some have ended")

    def end_long(self, why: str) -> None:
        """End those that may take long; their clients ask for the rest again."""
        for visit in self:
            if visit.long:
                visit.end(why)

    async def watch(self) -> None:
        """End the requests whose tokens are no longer valid."""
        while True:
            await anyio.sleep(REVOKED_S)
            long = [v for v in self if v.identity and v.seconds > REVOKED_S]
            if ids := {v.identity.token_id for v in long if v.identity}:
                bad = await self._threads.store(self._invalid, ids)
                for visit in long:
                    if visit.identity and visit.identity.token_id in bad:
                        visit.end(REVOKED)

    def _invalid(self, ids: set[str]) -> set[str]:
        now = self._site.now()
        return {one for one in ids if not self._site.store.valid(one, now)}


def _person(identity: Identity) -> tuple[str, str]:
    return identity.team, identity.person
