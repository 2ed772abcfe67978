"""Units; numbers, switches, times and sizes as people write them, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import replace

MIB = 1 << 20
GIB = 1 << 30
DAY_S = 86_400.0

MOST_PIDS = 1 << 22
"""The highest limit of processes that Linux accepts."""

Moment = Annotated[float, Meta(ge=0, le=2.5e11)]
"""Seconds since 1970, up to a year of four digits."""


_Value = TypeVar("_Value")
_Word = TypeVar("_Word", bound=str)

_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n"})

_UNIT_S = {
    "": 1.0,
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*")
_CLOCK = re.compile(r"(?:(\d+):)?(\d+):([0-5]\d)")

_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgt])i?)?b?")
_SHIFT = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}

_WHOLE = re.compile(r"[+-]?\d[\d_]*(?:\.0*)?")
_LONGEST = 100
"""The most characters of one: Python's numbers are not made for many digits."""

_MOST = 10**15
"""The largest time or size that is accepted."""

_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
MOMENTS = "`5m`, `1h30m`, `14:05`, `2026-11-22` or `2026-11-22 14:05:09`"


def whole(text: str) -> int | None:
    """Parse a whole number: ``2``, ``-1``, ``1_000``, ``2.0``."""
    if len(text) > 20 or not _WHOLE.fullmatch(text) or not text.isascii():
        return None
    return int(text.partition(".")[0].replace("_", ""))


def boolean(text: str) -> bool | None:
    """Parse a switch as YAML 1.1 spells it: true, yes, on, and their opposites."""
    word = text.lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def duration_s(text: str) -> float | None:
    """Parse a time as seconds: ``90``, ``10m``, ``1h30m``, ``1.5 hours``, ``10:00``."""
    text = text.strip().lower()
    if not text.isascii() or len(text) > _LONGEST:
        return None
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return _sane(hours * 3600.0 + minutes * 60.0 + seconds)
    parts, at = [], 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            return None
        parts.append(part.groups())
        at = part.end()
    if not parts:
        return None
    if len(parts) > 1 and any(not unit for _, unit in parts):
        return None
    if any(unit not in _UNIT_S for _, unit in parts):
        return None
    return _sane(sum(float(number) * _UNIT_S[unit] for number, unit in parts))


def size_bytes(text: str) -> int | None:
    """Parse a size as bytes: ``4096``, ``512M``, ``8GiB``; K, M, G and T are binary."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None:
        return None
    size = _sane(float(match[1]) * (1 << _SHIFT[match[2] or ""]))
    return None if size is None else int(size)


def duration_text(value_s: float) -> str:
    """Write a time: ``10m``, ``1h30m``, ``0.5s``."""
    minutes, seconds = divmod(value_s, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{n:.12g}{unit}" for n, unit in parts if n) or "0s"


def size_text(value: float) -> str:
    """Write a size in the greatest unit of which it is a whole number: ``8GiB``."""
    for unit in ("", "KiB", "MiB", "GiB"):
        if value % 1024 or not value:
            return f"{value:.0f}{unit}"
        value /= 1024
    return f"{value:.0f}TiB"


def _sane(value: float) -> float | None:
    return value if value <= _MOST else None


class Kind(Struct, Generic[_Value], frozen=True):
    """What values of one kind are called, and how they are read and written.

    ``parse`` returns None for a wrong one; ``unit`` ends the names of their fields.
    """

    words: str
    parse: Callable[[str], _Value | None]
    write: Callable[[Any], str] = str
    unit: str = ""

    def at_least(self, least: Any) -> Kind[_Value]:  # noqa: ANN401 - a _Value
        """Return the kind of those that are no less."""

        def parse(text: str) -> _Value | None:
            value = self.parse(text)
            return value if value is not None and value >= least else None

        between = " of at least " if self.unit else " from "
        above = between + self.write(least) if least > 0 else ""
        return replace(self, words=self.words + above, parse=parse)


def one_of(words: Sequence[_Word]) -> Kind[_Word]:
    """Return the kind of some words, which may be members of an enum."""
    *most, last = words
    text = f"{', '.join(most)} or {last}" if most else str(last)
    return Kind(text, {str(word): word for word in words}.get)


TEXT = Kind("text", str)
TIME = Kind("a time", lambda text: duration_s(text) or None, duration_text, "_s")
SIZE = Kind("a size", lambda text: size_bytes(text) or None, size_text, "_bytes")
COUNT = Kind("a whole number", whole)
SWITCH = Kind("true or false", boolean, lambda on: "on" if on else "off")


def moment(text: str, now: datetime) -> float | None:
    """Return a moment as seconds since 1970; None if it is none.

    A span is before ``now``, whose time zone counts where none is given. A time of day
    is the last such moment.
    """
    text = text.strip()
    if clock := _TIME_OF_DAY.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        today = now.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return (today if today <= now else today - timedelta(days=1)).timestamp()
    if ":" not in text and (span := duration_s(text)) is not None:
        return now.timestamp() - span
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=now.tzinfo)
    return found.timestamp()


def brief(value: float | None) -> str:
    """Format a short time with four digits, as profilers do: 992.0 ns, 16.60 ms."""
    if not value:
        return "" if value is None else "0 s"
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if value * scale < 999.95:
            return f"{value * scale:#.4g} {unit}"
    return f"{value:#.4g} s" if value < 999.95 else f"{value:.0f} s"


def size(value: float | None) -> str:
    """Format a number of bytes with a binary unit."""
    if value is None:
        return ""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
