"""What a profiler's file has: its sums, and its spans for a timeline."""

from __future__ import annotations

from runner.traces.reading import MOST, read, summary, timeline
from runner.traces.totals import shared

__all__ = ["MOST", "read", "shared", "summary", "timeline"]
