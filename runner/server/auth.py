"""Who asks: bearer tokens, and what their scopes allow."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict

from starlette.requests import Request

from runner.core import Reason
from runner.database.accounts import Identity
from runner.server import bounds
from runner.server.base import Site
from runner.server.refusing import DeniedError, refuse
from runner.server.threads import Threads
from runner.server.visits import Visits, visit_of
from runner.wire.accounts import Scope

_TOKEN = re.compile(r"bearer +(rai_[A-Za-z0-9]{1,64}_[A-Za-z0-9_-]{16,128})", re.I)
MOST_KEPT = 1024


class Gate:
    """It tells whose a request is.

    A token that was found valid counts as valid for REVOKED_S, so that the store is not
    asked for each request.
    """

    def __init__(self, site: Site, threads: Threads, visits: Visits) -> None:
        self._site, self._threads, self._visits = site, threads, visits
        self._kept: OrderedDict[bytes, tuple[Identity, float]] = OrderedDict()

    async def identity(self, request: Request, scope: Scope = Scope.RUN) -> Identity:
        """Return whose the request is; refuse one without a valid token."""
        token = _token(request)
        if token is None:
            raise _unknown("no token was sent")
        now = self._site.now()
        key = hashlib.sha256(token.encode()).digest()
        found, until = self._kept.get(key, (None, 0.0))
        if found is None or not until - bounds.REVOKED_S <= now < until:
            found = await self._threads.store(self._site.store.identify, token, now)
            self._kept.pop(key, None)
        if found is None or (found.expires_at is not None and found.expires_at <= now):
            raise _unknown("this token is not valid: it is unknown, expired or revoked")
        if key not in self._kept:
            self._kept[key] = found, now + bounds.REVOKED_S
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._visits.belongs(visit_of(request), found)
        if scope not in found.scopes:
            text = f"this token is not for that: it lacks the scope `{scope}`"
            raise refuse(Reason.NOT_ALLOWED, text)
        return found

    def forget(self, token_id: str) -> None:
        """Ask the store about a token again, which was revoked."""
        self._kept = OrderedDict(
            (key, kept)
            for key, kept in self._kept.items()
            if kept[0].token_id != token_id
        )


def _token(request: Request) -> str | None:
    given = request.headers.getlist("authorization")
    match = _TOKEN.fullmatch(given[0].strip()) if len(given) == 1 else None
    return match[1] if match else None


def _unknown(text: str) -> DeniedError:
    hint = "log in with `rai login URL`; your staff have the code"
    headers = {"WWW-Authenticate": 'Bearer realm="rai"'}
    return refuse(Reason.NOT_ALLOWED, text, status=401, hint=hint, headers=headers)
