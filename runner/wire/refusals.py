"""An error of a server, as RFC 9457's problem details with rai's own members."""

from __future__ import annotations

from msgspec import Struct

from runner.core.ending import Reason
from runner.core.problem import Problem


class Refusal(Struct, frozen=True, omit_defaults=True):
    """What a server answers in place of what was asked for.

    ``status`` is the HTTP status. ``reason`` decides the client's exit code, as for a
    run here. ``retry_at`` is when the same request may succeed, in seconds since 1970.
    """

    status: int
    title: str
    reason: Reason = Reason.INTERNAL
    problems: tuple[Problem, ...] = ()
    retry_at: float | None = None
