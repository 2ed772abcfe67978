"""Units in bytes and seconds, Linux's limit of processes, and moments."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

MIB = 1 << 20
GIB = 1 << 30
DAY_S = 86_400.0

MOST_PIDS = 1 << 22
"""The highest limit of processes that Linux accepts."""

Moment = Annotated[float, Meta(ge=0, le=2.5e11)]
"""Seconds since 1970, up to a year of four digits."""
