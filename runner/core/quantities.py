"""Numbers, switches, times and sizes as people write them; None where they are not."""

from __future__ import annotations

import re

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
_MOST = 10**15
"""Beyond this no time or size is meant."""


def whole(text: str) -> int | None:
    """Read a whole number: ``2``, ``-1``, ``1_000``, ``2.0``."""
    if len(text) > 20 or not _WHOLE.fullmatch(text) or not text.isascii():
        return None
    return int(text.partition(".")[0].replace("_", ""))


def boolean(text: str) -> bool | None:
    """Read a switch as YAML 1.1 spells it: true, yes, on, and their opposites."""
    word = text.lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def duration_s(text: str) -> float | None:
    """Read a time in seconds: ``90``, ``10m``, ``1h30m``, ``1.5 hours``, ``10:00``."""
    text = text.strip().lower()
    if not text.isascii():
        return None
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in clock.groups())
        return _sane(hours * 3600.0 + minutes * 60.0 + seconds)
    parts = _PART.findall(text)
    if not parts or not re.fullmatch(rf"(?:{_PART.pattern})+", text):
        return None
    if len(parts) > 1 and any(not unit for _, unit in parts):
        return None
    if any(unit not in _UNIT_S for _, unit in parts):
        return None
    return _sane(sum(float(number) * _UNIT_S[unit] for number, unit in parts))


def size_bytes(text: str) -> int | None:
    """Read a size in bytes: ``4096``, ``512M``, ``8GiB``; K, M, G and T are binary."""
    match = _SIZE.fullmatch(text.strip().lower())
    if match is None or not text.isascii():
        return None
    size = _sane(float(match[1]) * (1 << _SHIFT[match[2] or ""]))
    return None if size is None else int(size)


def _sane(value: float) -> float | None:
    return value if value <= _MOST else None
