"""What a profiler's file has: its sums, and its spans for a timeline.

reading.py: kinds.py (by its first bytes) -> database.py, a layout (nvprof_file.py,
nvidia_file.py, nsys_file.py) and sqlite_trace.py, or events.py
-> totals.py (the sums); spans.py, building.py (the timeline)
"""

from __future__ import annotations

from runner.traces.reading import MOST, read, summary, timeline
from runner.traces.totals import shared

__all__ = ["MOST", "read", "shared", "summary", "timeline"]
