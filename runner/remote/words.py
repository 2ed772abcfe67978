"""Where a run on a server stands, in words. Pure."""

from __future__ import annotations

from datetime import datetime

from runner.remote.problems import moment, shown
from runner.wire.remote_runs import QueueState, RemoteRun


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
            said = "; ".join(part for part in (facts, why) if part)
            return f"waiting: {said}" if said else "waiting"
        case QueueState.RUNNING if run.started_at is not None:
            return f"running since {clock(run.started_at, now)}"
        case _:
            return f"{run.state}: {why}" if why else str(run.state)


def clock(at: float, now: float) -> str:
    """Write a past moment: ``14:05`` of today, else with its date."""
    try:
        then = datetime.fromtimestamp(at).astimezone()
        today = datetime.fromtimestamp(now).astimezone()
    except (ValueError, OverflowError, OSError):
        return "?"
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%b %d %H:%M}"


def validity(expires_at: float | None, now: float) -> str:
    """Write until when a token is good."""
    if expires_at is None:
        return "until it is revoked"
    if expires_at <= now:
        return "over"
    return "until " + moment(expires_at, now).removeprefix("at ").removeprefix("on ")
