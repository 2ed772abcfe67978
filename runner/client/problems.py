"""What a server says, in words: its refusals as errors of rai, and how a run stands."""

from __future__ import annotations

from datetime import datetime

from runner.client.bounds import MOST_PROBLEMS, MOST_TEXT
from runner.core import Place, Problem, Reason
from runner.core.errors import BusyError, NotAllowedError, RaiError
from runner.core.screen import printable
from runner.core.wire import QueueState, Refusal, RemoteRun

NO_TOKEN, MISSING, CONFLICT, NOT_AS_ANNOUNCED = 401, 404, 409, 422


class UnreachableError(BusyError):
    """The server cannot be reached, or the connection broke; it may work later."""

    def __init__(self, *problems: Problem | str) -> None:
        advice = "Check the network and the address, and try again."
        super().__init__(*problems, advice=advice)


class RefusedError(RaiError):
    """The server refused what was asked for; ``refusal`` is its answer."""

    def __init__(self, refusal: Refusal, *problems: Problem) -> None:
        super().__init__(*problems, reason=refusal.reason, advice=_advice(refusal))
        self.refusal = refusal

    @property
    def missing(self) -> bool:
        """Whether there is no such thing on the server, or none for this team."""
        return self.refusal.status == MISSING

    @property
    def id_taken(self) -> bool:
        """Whether the server has another run under the id that a new one has."""
        # A lack of GPUs has this status too.
        same = self.refusal.status == CONFLICT
        return same and self.refusal.reason is Reason.USAGE


class LoginNeededError(NotAllowedError):
    """The server does not take the token, or there is none."""

    def __init__(self, url: str, text: str) -> None:
        super().__init__(Problem(text, hint=f"log in with a new code: rai login {url}"))
        self.advice = ""


class UntrustedServerError(NotAllowedError):
    """The server's certificate is not the one that it should be."""

    def __init__(self, *problems: Problem | str) -> None:
        super().__init__(*problems, advice="")


class NoServerError(RaiError):
    """What answers is no server of rai, or one that another version speaks to."""

    reason = Reason.BAD_CONFIG

    def __init__(self, *problems: Problem | str) -> None:
        super().__init__(*problems, advice="")


def refused(refusal: Refusal, url: str, now: float) -> RaiError:
    """Return the error of a refusal; its texts are escaped, and bounded."""
    if refusal.status == NO_TOKEN:
        told = [problem.message for problem in refusal.problems[:1]] or [refusal.title]
        text = shown(told[0]) or "the server does not accept the token"
        return LoginNeededError(url, f"{url}: {text}")
    problems = [_safe(problem) for problem in refusal.problems[:MOST_PROBLEMS]]
    if (more := len(refusal.problems) - MOST_PROBLEMS) > 0:
        problems.append(Problem(f"{more} further problems are not shown"))
    if not problems:
        title = shown(refusal.title) or f"the server refused ({refusal.status})"
        problems = [Problem(title)]
    if refusal.retry_at is not None:
        when = f"try again {moment(refusal.retry_at, now)}"
        last = problems[-1]
        hint = f"{last.hint}; {when}" if last.hint else when
        problems[-1] = Problem(last.message, last.place, hint, last.severity)
    return RefusedError(refusal, *problems)


def shown(text: str) -> str:
    """Return a text of a server's as it may be shown."""
    return printable(text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}...")


def moment(at: float, now: float) -> str:
    """Write a moment of the near future in local time, as words: ``at 14:05``."""
    if (days := _days(at, now)) is None:
        return "later"
    if at <= now:
        return "now"
    # A minute that has begun is no time to come again.
    clock = f"{_local(at):%H:%M:%S}" if at - now < 120 else f"{_local(at):%H:%M}"
    if days == 0:
        return f"at {clock}"
    day = "tomorrow" if days == 1 else f"on {_local(at):%Y-%m-%d}"
    return f"{day} at {clock}"


def clock(at: float, now: float) -> str:
    """Write a past moment: ``14:05`` of today, else with its date."""
    if (days := _days(at, now)) is None:
        return "?"
    return f"{_local(at):%b %d %H:%M}" if days else f"{_local(at):%H:%M}"


def _local(at: float) -> datetime:
    return datetime.fromtimestamp(at).astimezone()


def _days(at: float, now: float) -> int | None:
    """Return how many days from today a moment is; None if there is no such day."""
    try:
        return (_local(at).date() - _local(now).date()).days
    except (ValueError, OverflowError, OSError):
        return None


def estimate(seconds: float | None) -> str:
    """Write after how long a run should start: ``in about 3 min``; "" if unknown."""
    if seconds is None:
        return ""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "in less than a minute"
    if minutes < 90:
        return f"in about {minutes} min"
    return f"in about {round(minutes / 60)} h"


def ahead(count: int | None) -> str:
    """Write how many runs start before one: ``2 runs before it``; "" if unknown."""
    if count is None:
        return ""
    return f"{runs(count)} before it" if count else "next"


def runs(count: int) -> str:
    """Write a number of runs."""
    return f"{count} run{'' if count == 1 else 's'}"


def standing(run: RemoteRun, now: float) -> str:
    """Write where a run stands: ``waiting: next, starts in about 3 min; no GPU free``.

    The server's own words are escaped.
    """
    why = shown(run.why)
    match run.state:
        case QueueState.WAITING:
            when = estimate(run.estimate_s)
            parts = (ahead(run.ahead), f"starts {when}" if when else "")
            facts = ", ".join(part for part in parts if part)
            why = "" if why == ahead(run.ahead) else why
            said = "; ".join(part for part in (facts, why) if part)
            return f"waiting: {said}" if said else "waiting"
        case QueueState.RUNNING if run.started_at is not None:
            return f"running since {clock(run.started_at, now)}"
        case _:
            return f"{run.state}: {why}" if why else str(run.state)


def validity(expires_at: float | None, now: float) -> str:
    """Write until when a token is good."""
    if expires_at is None:
        return "until it is revoked"
    if expires_at <= now:
        return "over"
    return "until " + moment(expires_at, now).removeprefix("at ").removeprefix("on ")


def _safe(problem: Problem) -> Problem:
    place = problem.place
    where = place and Place(shown(place.file), place.line, place.column)
    return Problem(shown(problem.message), where, shown(problem.hint), problem.severity)


def _advice(refusal: Refusal) -> str | None:
    """Return the advice; the reason's own speaks of this machine for some."""
    if refusal.reason is Reason.INTERNAL:
        return "The server's log says why; tell whoever runs it."
    if refusal.retry_at is not None or refusal.reason is Reason.USAGE:
        return ""
    hinted = any(problem.hint for problem in refusal.problems)
    if hinted and refusal.reason in (Reason.NOT_ALLOWED, Reason.NO_GPU):
        return ""
    return None
