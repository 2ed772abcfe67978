"""What a profiler's file has: its sums, and its spans for a timeline.

reading.py (the kind of a file, by its first bytes)
-> database.py, layouts.py (what the tables are) and sqlite_trace.py, or events.py
-> totals.py (the sums), building.py (the timeline)
"""

from __future__ import annotations

from runner.traces.reading import MOST, read, summary, timeline

__all__ = ["MOST", "read", "summary", "timeline"]
