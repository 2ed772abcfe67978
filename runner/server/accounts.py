"""Routes about who one is: logging in and out, and what one's team may do."""

from __future__ import annotations

from msgspec.structs import asdict
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from runner import __version__
from runner.core import Reason
from runner.core.screen import printable
from runner.core.units import DAY_S
from runner.database.accounts import Identity
from runner.server import bounds, logs
from runner.server.bounds import TryCounter, network
from runner.server.messages import answer, decoded, nothing, refuse
from runner.server.requests import Site
from runner.wire import API_VERSION
from runner.wire.accounts import (
    LoginAnswer,
    LoginCode,
    LoginRequest,
    Me,
    RoleLimits,
    Scope,
    ServerFacts,
)

LEAST_CLIENT = "0.1.0"
MOST_DEVICE = 100
ALL = "all"


class AccountRoutes:
    """The routes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tries = TryCounter(bounds.LOGIN_TRIES, bounds.LOGIN_REFILL_S)
        self._all = TryCounter(bounds.ALL_LOGIN_TRIES, bounds.ALL_LOGIN_REFILL_S)

    async def facts(self, request: Request) -> Response:
        """Answer `GET /api/v1/`."""
        now = self._site.now()
        return answer(ServerFacts(__version__, API_VERSION, LEAST_CLIENT, now))

    async def login(self, request: Request) -> Response:
        """Answer `POST /api/v1/login`.

        A try is counted before the code is looked at, and given back if it is right:
        many people may log in from one address, and nobody can try codes at once. Who
        has no try left takes none of those that all share.
        """
        asked = await decoded(request, LoginRequest)
        address = network(request.client.host) if request.client else ""
        now = self._site.now()
        if known := self._tries.take(address, now) or self._all.take(ALL, now):
            text = "too many codes that are not valid were tried"
            raise refuse(Reason.RATE_LIMIT, text, retry_at=known)
        found = await run_in_threadpool(self._redeemed, asked, now)
        if found is None:
            text = "this code is not valid: it was used, is too old, or is mistyped"
            hint = "ask your staff for a new one"
            raise refuse(Reason.NOT_ALLOWED, text, hint=hint)
        self._tries.give_back(address, now)
        self._all.give_back(ALL, now)
        token, identity = found
        facts = {"token": identity.token_id, "client": address}
        logs.step("login", team=identity.team, person=identity.person, **facts)
        me = await run_in_threadpool(self._me, identity)
        return answer(LoginAnswer(token, me), 201)

    async def me(self, request: Request) -> Response:
        """Answer `GET /api/v1/me`."""
        identity = await self._site.identify(request)
        return answer(await run_in_threadpool(self._me, identity))

    async def another(self, request: Request) -> Response:
        """Answer `POST /api/v1/codes`: a code for another login of who asks."""
        identity = await self._site.identify(request)
        now, valid_s = self._site.now(), bounds.ANOTHER_VALID_S
        make = self._site.store.another
        made = await run_in_threadpool(make, identity.token_id, now, valid_s)
        logs.step("login_code", team=identity.team, person=identity.person)
        return answer(LoginCode(made.code, made.expires_at), 201)

    async def revoke(self, request: Request) -> Response:
        """Answer `DELETE /api/v1/tokens/{id}`: a token of the person who asks."""
        identity = await self._site.identify(request)
        token_id = request.path_params["id"]
        if token_id == "current":
            token_id = identity.token_id
        if not await run_in_threadpool(self._revoked, identity, token_id):
            raise nothing("token")
        self._site.forget(token_id)
        logs.step("logout", team=identity.team, person=identity.person, token=token_id)
        return Response(status_code=204)

    def _redeemed(self, asked: LoginRequest, now: float) -> tuple[str, Identity] | None:
        """Return the token that a code is good for, and whose it is."""
        code, valid_s = asked.code.strip(), self._site.rules.token_valid_s
        device = printable(asked.device[:MOST_DEVICE]).replace("\n", " ")
        return self._site.store.redeem(code, device, now, valid_s, tuple(Scope))

    def _revoked(self, identity: Identity, token_id: str) -> bool:
        store = self._site.store
        own = store.tokens(identity.team, identity.person)
        mine = token_id in {token.id for token in own}
        return mine and store.revoke(token_id, self._site.now())

    def _me(self, identity: Identity) -> Me:
        role, now = self._site.rules.role(identity.role), self._site.now()
        use = self._site.store.use(identity.team, now - DAY_S)
        left = resets_at = None
        if role.a_day is not None:
            left = max(role.a_day - use.queued_since, 0)
            resets_at = use.oldest_since and use.oldest_since + DAY_S
        gpu_left_s = role.gpu_a_day_s
        if gpu_left_s is not None:
            had = self._site.store.gpu_use(now - DAY_S, now).get(identity.team)
            gpu_left_s = max(gpu_left_s - (had.seconds if had else 0.0), 0.0)
        limits = RoleLimits(
            at_once=role.at_once,
            left_today=left,
            resets_at=resets_at,
            gpu_left_s=gpu_left_s,
            upload_bytes=role.upload_bytes,
            disk_bytes=role.disk_bytes,
            disk_used=use.bytes,
            network=bool(role.ceilings.get("network", True)),
            own_images=role.images is None,
        )
        return Me(**asdict(identity), limits=limits)
