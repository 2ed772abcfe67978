"""Parse moments as people write them: a time span ago, a time of day, a date."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from runner.core import quantities

_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
EXAMPLES = "`5m`, `1h30m`, `14:05`, `2026-11-22` or `2026-11-22 14:05:09`"


def moment(text: str, now: datetime) -> float | None:
    """Return a moment as seconds since 1970; None if it is none.

    A span is before ``now``, whose time zone counts where none is given. A time of day
    is the last such moment.
    """
    text = text.strip()
    if clock := _CLOCK.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (today if today <= now else today - timedelta(days=1)).timestamp()
    if ":" not in text and (span := quantities.duration_s(text)) is not None:
        return now.timestamp() - span
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
    return found.timestamp()
