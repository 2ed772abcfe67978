"""How many bytes the binary units are."""

from __future__ import annotations

MIB = 1 << 20
GIB = 1 << 30

MOST_PIDS = 1 << 22
"""The most processes that Linux counts; it refuses a higher limit."""
