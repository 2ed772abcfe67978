"""A deadline: a date, a time of day and a zone. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EXAMPLE = "2026-12-11 23:59 America/Chicago"

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d)?)(?:\s*([A-Za-z+-][A-Za-z0-9_+/-]*))?"
)


def parse(text: str) -> datetime:
    """Return the moment, in its zone.

    Raises:
        ValueError: with what is wrong, and what to write.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected a date, a time and a zone, e.g. `{EXAMPLE}`")
    day, clock, zone = match.groups()
    if zone is None:
        raise ValueError(f"it has no zone; add one, e.g. `{EXAMPLE}`")
    try:
        bare = datetime.fromisoformat(f"{day}T{clock}")
    except ValueError:
        raise ValueError(f"there is no {day} {clock}; correct it") from None
    return _in_zone(bare, zone)


def _in_zone(bare: datetime, zone: str) -> datetime:
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        hint = "use one of the IANA names, e.g. `America/Chicago` or `UTC`"
        raise ValueError(f"there is no time zone {zone}; {hint}") from None
    first, second = (bare.replace(tzinfo=info, fold=fold) for fold in (0, 1))
    if first.utcoffset() == second.utcoffset():
        return first
    back = first.astimezone(UTC).astimezone(info).replace(tzinfo=None)
    if back != bare:
        text = f"{bare:%H:%M} does not exist that day in {zone}"
    else:
        text = f"{bare:%H:%M} occurs twice that day in {zone}"
    raise ValueError(f"{text}, since the clocks change; choose another time")
