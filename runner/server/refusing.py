"""Refuse a request: each error of the HTTP interface as a Refusal."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from msgspec import json
from starlette.responses import Response

from runner.core import Problem, Reason
from runner.core.errors import RaiError
from runner.wire import PROBLEM_JSON
from runner.wire.refusals import Refusal

BUSY_S = 5.0
"""After how many seconds to ask again where nothing tells a better time."""

_STATUS = {
    Reason.USAGE: 400,
    Reason.BAD_SPEC: 400,
    Reason.BAD_CONFIG: 400,
    Reason.NOT_ALLOWED: 403,
    Reason.NO_GPU: 409,
    Reason.RATE_LIMIT: 429,
    Reason.BUSY: 503,
}


class DeniedError(Exception):
    """A request that is not carried out, and the answer that says why."""

    def __init__(
        self, refusal: Refusal, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(refusal.title)
        self.refusal = refusal
        self.headers = dict(headers or {})


def refuse(
    reason: Reason,
    *problems: Problem | str,
    status: int | None = None,
    hint: str = "",
    retry_at: float | None = None,
    headers: Mapping[str, str] | None = None,
) -> DeniedError:
    """Return the error for a reason; ``hint`` is of a problem given as text."""
    status = status or _STATUS.get(reason, 500)
    found = tuple(
        one if isinstance(one, Problem) else Problem(one, hint=hint) for one in problems
    )
    title = HTTPStatus(status).phrase
    return DeniedError(Refusal(status, title, reason, found, retry_at), headers)


def nothing(what: str) -> DeniedError:
    """Return the error for what is not there, or is another team's."""
    return refuse(Reason.USAGE, f"there is no such {what}", status=404)


def of_error(error: RaiError) -> DeniedError | None:
    """Return the refusal of an error that speaks of the request; None for a fault.

    A fault's own text may name files of the server.
    """
    if error.reason is Reason.BUSY:
        text = "a part of the server does not answer now"
        return refuse(Reason.BUSY, text, hint="try again in a few seconds")
    if error.reason in (Reason.USAGE, Reason.BAD_SPEC, Reason.NOT_ALLOWED):
        return refuse(error.reason, *error.problems)
    return None


def response(error: DeniedError, now: float) -> Response:
    """Return the answer to a request that was refused."""
    refusal, headers = error.refusal, error.headers
    if refusal.retry_at is not None:
        wait_s = max(1, round(refusal.retry_at - now))
        headers = {"Retry-After": str(wait_s), **headers}
    elif refusal.status == 503:
        headers = {"Retry-After": str(round(BUSY_S)), **headers}
    body = json.encode(refusal)
    return Response(body, refusal.status, headers, media_type=PROBLEM_JSON)
