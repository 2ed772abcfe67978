"""Binary units in bytes, and Linux's limit of processes."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30

MOST_PIDS = 1 << 22
"""The highest limit of processes that Linux accepts."""
