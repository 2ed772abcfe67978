"""Read back what nvprof prints."""

from __future__ import annotations

from nvprof import units


def nanoseconds(text: str) -> int:
    """Read a time, as exactly as its digits allow."""
    number = text.rstrip("nums")
    return round(float(number) * units.TIMES[text[len(number) :]])
